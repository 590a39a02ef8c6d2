"""A container and an instance that do not fit each other cannot be written down."""

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Match, Template

from voice_constructs.accelerators import ACCELERATOR_BY_INSTANCE_TYPE, accelerator_of
from voice_constructs.errors import InvalidPropertiesError, UnknownInstanceTypeError, UnsupportedCudaError
from voice_constructs.inference_ami import CudaVersion, InferenceAmi
from voice_constructs.instance_pools import InstancePools
from voice_constructs.model_weights import ModelWeights
from voice_constructs.published_images import BRIDGE_BASE_CUDA_12, BRIDGE_BASE_CUDA_13, cuda_of_image, omni_tag
from voice_constructs.serving_image import ServingImage


class TestCuda:
    @pytest.mark.parametrize(
        ("image", "cuda"),
        [
            (BRIDGE_BASE_CUDA_13, CudaVersion(13, 0)),
            (BRIDGE_BASE_CUDA_12, CudaVersion(12, 9)),
            (f"vllm:{omni_tag('v1.5')}", CudaVersion(13, 0)),
            (f"vllm:{omni_tag('v1.5.2')}", CudaVersion(13, 0)),
            (f"vllm:{omni_tag('v1.50')}", None),
            (f"vllm:{omni_tag('v1.4')}", None),
            ("vllm:server-sagemaker-cuda-v20.1", None),
            ("localhost:5000/vllm:cu118", CudaVersion(11, 8)),
            ("registry/cu129-tools:latest", None),
        ],
    )
    def test_is_read_from_the_tag_or_not_at_all(self, image: str, cuda: CudaVersion | None) -> None:
        assert cuda_of_image(image) == cuda

    @pytest.mark.parametrize(
        ("cuda", "ami", "driver"),
        [
            ("12.4", "al2-ami-sagemaker-inference-gpu-3-1", 550),
            ("12.9", "al2-ami-sagemaker-inference-gpu-3-1", 550),
            ("13.0", "al2023-ami-sagemaker-inference-gpu-4-1", 580),
        ],
    )
    def test_decides_the_inference_ami(self, cuda: str, ami: str, driver: int) -> None:
        assert InferenceAmi.for_cuda(CudaVersion.parse(cuda)) == InferenceAmi(ami, driver)

    def test_without_an_ami_is_refused(self) -> None:
        with pytest.raises(UnsupportedCudaError, match=r"CUDA 11\.8; known: CUDA 12\.x, 13\.x"):
            InferenceAmi.for_cuda(CudaVersion(11, 8))

    @pytest.mark.parametrize("text", ["13", "13.0.1", "cu130", "", "13.x"])
    def test_is_written_as_major_and_minor(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"MAJOR\.MINOR"):
            CudaVersion.parse(text)


class TestServingImage:
    def test_a_contradiction_of_the_tag_is_refused(self) -> None:
        with pytest.raises(InvalidPropertiesError, match=r"has CUDA 13\.0, but cuda says 12\.9"):
            ServingImage.vllm_omni(cuda=CudaVersion(12, 9))

    def test_an_unknown_cuda_version_must_be_given(self) -> None:
        with pytest.raises(InvalidPropertiesError, match=r"omni-sagemaker-cuda-v2\.0 is not known"):
            ServingImage.vllm_omni("v2.0")
        assert ServingImage.vllm_omni("v2.0", cuda=CudaVersion(13, 1)).inference_ami.driver == 580

    def test_an_image_of_ones_own_is_pulled_from_its_repository_only(self) -> None:
        stack = Stack(App(), "Test")
        role = iam.Role(stack, "Role", assumed_by=iam.AccountRootPrincipal())
        repository = ecr.Repository.from_repository_name(stack, "Repository", "my-voice")
        image = ServingImage.from_ecr(repository, "v1", cuda=CudaVersion(12, 8), invocation_paths=("v1/realtime",))
        assert image.inference_ami.version == "al2-ami-sagemaker-inference-gpu-3-1"
        assert image.bind(stack, role)
        Template.from_stack(stack).has_resource_properties(
            "AWS::IAM::Policy",
            Match.object_like(
                {
                    "PolicyDocument": {
                        "Statement": [
                            {
                                "Action": [
                                    "ecr:BatchCheckLayerAvailability",
                                    "ecr:BatchGetImage",
                                    "ecr:GetDownloadUrlForLayer",
                                ],
                                "Effect": "Allow",
                                "Resource": {"Fn::Join": ["", Match.array_with([":repository/my-voice"])]},
                            },
                            {"Action": "ecr:GetAuthorizationToken", "Effect": "Allow", "Resource": "*"},
                        ]
                    }
                }
            ),
        )

    def test_paths_carry_no_leading_slash(self) -> None:
        """SageMaker answers a model invocation path with a leading slash with HTTP 400."""
        assert not [path for path in ServingImage.vllm_omni().invocation_paths if path.startswith("/")]


class TestInstancePools:
    def test_all_problems_come_at_once(self) -> None:
        with pytest.raises(InvalidPropertiesError) as caught:
            InstancePools(
                ["ml.g4dn.xlarge", "ml.g4dn.xlarge", "ml.p3.2xlarge"],
                min_gpu_memory_gb=24,
                provision_timeout_seconds=10,
            )
        assert len(caught.value.problems) == 4

    def test_none_and_six_are_refused(self) -> None:
        with pytest.raises(InvalidPropertiesError, match="0 instance types"):
            InstancePools([])
        with pytest.raises(InvalidPropertiesError, match="6 instance types"):
            InstancePools(
                [f"ml.g5.{size}" for size in ("xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge")]
            )

    def test_only_the_t4_has_no_bfloat16(self) -> None:
        without = {name.split(".")[1] for name, gpu in ACCELERATOR_BY_INSTANCE_TYPE.items() if not gpu.bfloat16}
        assert without == {"g4dn"}
        assert InstancePools().without_bfloat16 == ("ml.g4dn.xlarge",)

    def test_an_unknown_type_names_the_known_families(self) -> None:
        with pytest.raises(UnknownInstanceTypeError, match=r"ml\.g6\.\*"):
            accelerator_of("ml.g7.xlarge")


@pytest.mark.parametrize("prefix", ["", "/", "voxtral", "/voxtral/"])
def test_a_weights_prefix_is_a_folder(prefix: str) -> None:
    bucket = s3.Bucket.from_bucket_name(Stack(App(), "Test"), "Bucket", "my-bucket")
    with pytest.raises(InvalidPropertiesError, match="ending with /"):
        ModelWeights.s3(bucket, prefix, model_id="a/b")
