"""Where AWS publishes what an endpoint needs, by region. A test compares the accounts with aws-cdk-lib's own table."""

POOL_REGIONS = frozenset(
    {
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "ap-southeast-3",
        "ca-central-1",
        "eu-central-1",
        "eu-central-2",
        "eu-north-1",
        "eu-west-1",
        "eu-west-2",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-2",
    }
)
"""Regions that AWS's walkthrough of an endpoint with instance pools lists."""

_SHARED_ACCOUNT = "763104351884"
_SHARED_ACCOUNT_REGIONS = frozenset(
    {
        *(POOL_REGIONS - {"ap-southeast-3", "eu-central-2"}),
        "eu-west-3",
        "us-west-1",
    }
)
_OWN_ACCOUNTS = {
    "ap-east-1": "871362719292",
    "ap-east-2": "975050140332",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-6": "633930458069",
    "cn-north-1": "727897471807",
    "cn-northwest-1": "727897471807",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "eusc-de-east-1": "204133271717",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "us-isof-east-1": "303241398832",
    "us-isof-south-1": "454834333376",
}


def container_account(region: str) -> str | None:
    """Return the account whose ECR holds the Deep Learning Containers of a region; None when none is known."""
    return _SHARED_ACCOUNT if region in _SHARED_ACCOUNT_REGIONS else _OWN_ACCOUNTS.get(region)


def regions_with_containers() -> frozenset[str]:
    """Return the regions whose container account is known."""
    return _SHARED_ACCOUNT_REGIONS | _OWN_ACCOUNTS.keys()
