"""A place in a VPC for an endpoint's containers, and the VPC endpoints they need there.

Not verified on AWS: that these VPC endpoints are all a serving container needs, and that the runtime's interface
endpoint passes HTTP/2 streams on port 8443 (docs/operations.md).
"""

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from voice_constructs.acknowledgements import Scanner, acknowledge, wildcard_resource

STREAM_PORT = 8443
"""Where the SageMaker runtime takes bidirectional streams."""

_HTTPS = 443


class VoiceNetwork(Construct):
    """Subnets and a security group for an endpoint's containers: nothing comes in, only HTTPS goes out."""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002 - the CDK's own name for it
        *,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        internet_egress: bool,
    ) -> None:
        """Create the security group.

        Args:
            scope: parent construct.
            id: construct id.
            vpc: the VPC.
            subnets: best of several availability zones: SageMaker puts instances where it finds capacity.
            internet_egress: whether the subnets' routes lead to the internet (NAT). Weights from the hub need it.
        """
        super().__init__(scope, id)
        self.internet_egress = internet_egress
        self._subnets = tuple(subnets)
        self.security_group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=vpc,
            description="Containers of a voice endpoint: no way in, HTTPS out",
            allow_all_outbound=False,
        )
        self.security_group.add_egress_rule(
            ec2.Peer.any_ipv4(), ec2.Port.tcp(_HTTPS), "S3, ECR, CloudWatch and, where routed, the hub"
        )

    @property
    def vpc_config(self) -> sagemaker.CfnModel.VpcConfigProperty:
        """The model's `VpcConfig`."""
        return sagemaker.CfnModel.VpcConfigProperty(
            security_group_ids=[self.security_group.security_group_id],
            subnets=[subnet.subnet_id for subnet in self._subnets],
        )

    def grant_attach(self, role: iam.Role) -> iam.Policy:
        """Let an execution role put network interfaces into these subnets.

        The actions are those of the SageMaker developer guide for CreateModel with a VPC; where EC2 takes a resource,
        it is given. A model must not be created before the policy that is returned.
        """
        stack = Stack.of(self)

        def arn(resource: str, name: str) -> str:
            return stack.format_arn(
                service="ec2", resource=resource, resource_name=name, arn_format=ArnFormat.SLASH_RESOURCE_NAME
            )

        any_interface = arn("network-interface", "*")
        policy = iam.Policy(
            self,
            "AttachPolicy",
            roles=[role],
            statements=[
                iam.PolicyStatement(
                    actions=[
                        "ec2:CreateNetworkInterface",
                        "ec2:CreateNetworkInterfacePermission",
                        "ec2:DeleteNetworkInterface",
                        "ec2:DeleteNetworkInterfacePermission",
                    ],
                    resources=[
                        any_interface,
                        arn("security-group", self.security_group.security_group_id),
                        *(arn("subnet", subnet.subnet_id) for subnet in self._subnets),
                    ],
                ),
                iam.PolicyStatement(
                    actions=[
                        "ec2:DescribeDhcpOptions",
                        "ec2:DescribeNetworkInterfaces",
                        "ec2:DescribeSecurityGroups",
                        "ec2:DescribeSubnets",
                        "ec2:DescribeVpcs",
                    ],
                    resources=["*"],
                ),
            ],
        )
        acknowledge(
            policy,
            Scanner.CDK_NAG,
            "AwsSolutions-IAM5[Resource::*]",
            reason="EC2's Describe actions take no resource.",
        )
        acknowledge(
            policy,
            Scanner.CDK_NAG,
            wildcard_resource(self, any_interface),
            reason="A network interface gets its id when it is created; subnet and security group are given by id.",
        )
        return policy


class VoiceVpcEndpoints(Construct):
    """What containers and clients in a VPC without internet reach AWS through.

    S3 (layers of images, weights), ECR (images), CloudWatch Logs and metrics for the containers; the SageMaker runtime,
    ports 443 and 8443, for clients. A VPC takes one private DNS name of each, so that create this once a VPC.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002 - the CDK's own name for it
        *,
        vpc_id: str,
        cidr: str,
        subnet_ids: Sequence[str],
        route_table_ids: Sequence[str],
    ) -> None:
        """Create the endpoints.

        Args:
            scope: parent construct.
            id: construct id.
            vpc_id: the VPC.
            cidr: its address range, which may reach the interface endpoints.
            subnet_ids: one an availability zone, for the interface endpoints.
            route_table_ids: of the subnets, for the S3 gateway.
        """
        super().__init__(scope, id)
        region = Stack.of(self).region
        group = ec2.CfnSecurityGroup(
            self,
            "SecurityGroup",
            vpc_id=vpc_id,
            group_description="VPC endpoints of voice endpoints: HTTPS and streams from within the VPC",
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol="tcp", from_port=port, to_port=port, cidr_ip=cidr, description=description
                )
                for port, description in ((_HTTPS, "HTTPS"), (STREAM_PORT, "bidirectional streams"))
            ],
        )
        ec2.CfnVPCEndpoint(
            self,
            "S3",
            vpc_id=vpc_id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=list(route_table_ids),
        )
        for endpoint_id, service in (
            ("EcrApi", "ecr.api"),
            ("EcrDocker", "ecr.dkr"),
            ("Logs", "logs"),
            ("Metrics", "monitoring"),
            ("Runtime", "sagemaker.runtime"),
        ):
            ec2.CfnVPCEndpoint(
                self,
                endpoint_id,
                vpc_id=vpc_id,
                service_name=f"com.amazonaws.{region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(subnet_ids),
                security_group_ids=[group.attr_group_id],
            )
