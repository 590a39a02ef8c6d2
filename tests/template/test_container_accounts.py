"""`voice doctor` knows the regions without aws-cdk-lib; what it knows is what aws-cdk-lib knows."""

import subprocess
import sys
from pathlib import Path

from aws_cdk import region_info

from voice_ops.doctor.container_accounts import POOL_REGIONS, container_account, regions_with_containers


def test_the_container_accounts_are_those_that_a_deploy_uses() -> None:
    known = {info.name: info.dlc_repository_account for info in region_info.RegionInfo.regions}

    assert {name: account for name, account in known.items() if account} == {
        name: container_account(name) for name in regions_with_containers()
    }
    assert all(container_account(name) is None for name, account in known.items() if account is None)
    assert regions_with_containers() >= POOL_REGIONS


def test_operators_commands_need_no_aws_cdk() -> None:
    program = (
        "import sys, voice_ops.cli_doctor, voice_ops.prices, voice_ops.session\n"
        "print(sorted({'aws_cdk', 'jsii', 'voice_local', 'voice_client'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert found.stdout.strip() == "[]"
