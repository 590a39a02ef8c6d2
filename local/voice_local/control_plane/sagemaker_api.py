"""Fills moto's gaps in the SageMaker API: endpoints that really start, UpdateEndpoint, pools, names that exist once.

What moto 5.2 does not do, and what is done here:

- every endpoint is InService at once: `EndpointHosting` runs its containers and decides
- no UpdateEndpoint: new containers beside the old ones, alarms watched, old ones kept for their streams
- InstancePools and new instance types are refused, nothing else is checked: `VariantRules`
- an endpoint, config or model of an existing name replaces it in silence: refused as the service does
- an endpoint names neither its pools, routing nor images: kept from the config and described
- EnableNetworkIsolation is dropped: kept
"""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.responses import ActionResult
from moto.sagemaker import models, responses
from moto.sagemaker.exceptions import ValidationError

from voice_local.control_plane.endpoint_hosting import EndpointHosting, Rollout
from voice_local.control_plane.patches import Patches
from voice_local.control_plane.serving_cuda import mismatch
from voice_local.control_plane.settings import ControlPlaneSettings
from voice_local.control_plane.variant_container import VariantPlan
from voice_local.control_plane.variant_rules import VariantRules
from voice_local.identity import LocalIdentity
from voice_local.image_store import ImageStore
from voice_local.interfaces import EndpointStatus


class SageMakerApi:
    """The endpoint part of SageMaker's API, on top of moto's models."""

    def __init__(
        self,
        identity: LocalIdentity,
        state_lock: threading.RLock,
        images: ImageStore,
        settings: ControlPlaneSettings,
    ) -> None:
        """`state_lock` guards moto's models: held by every API call, taken here by the hosting's threads."""
        self._identity = identity
        self._settings = settings
        self._images = images
        self._state_lock = state_lock
        self._rules = VariantRules()
        self._hosting: EndpointHosting | None = None

    def install(self, patches: Patches, hosting: EndpointHosting) -> None:
        """Put the gaps' fillings into moto; `patches` takes them out again."""
        self._hosting = hosting
        backend = models.SageMakerModelBackend
        # moto's own check knows no pools and no instance type newer than g4dn.
        patches.method(models.FakeEndpointConfig, "validate_production_variants", self._check_variants)
        patches.around(backend, "create_model", self._create_model)
        patches.around(backend, "create_endpoint_config", self._create_config)
        patches.around(backend, "create_endpoint", self._create_endpoint)
        patches.method(backend, "delete_endpoint", self._delete_endpoint)
        patches.method(models.FakeEndpoint, "_process_production_variants", _describe_variants)
        patches.method(responses.SageMakerResponse, "update_endpoint", self._update_endpoint)
        patches.around(responses.SageMakerResponse, "create_model", self._keep_isolation)

    def resume(self) -> list[str]:
        """Start the containers of the endpoints that a saved state holds; return the names of those that will serve.

        They are Creating until their containers answer. One that was being deleted is gone, one that was being updated
        serves from the configuration it had. Called with the state locked.
        """
        backend = self._backend()
        started = []
        for name, endpoint in list(backend.endpoints.items()):
            if endpoint.endpoint_status == EndpointStatus.DELETING.value:
                del backend.endpoints[name]
            elif endpoint.endpoint_status == EndpointStatus.FAILED.value:
                self._the_hosting().know_failed(name)
            else:
                plans = self._plans(backend, endpoint.endpoint_config_name)
                endpoint.endpoint_status = EndpointStatus.CREATING.value
                self._the_hosting().create(name, plans)
                started.append(name)
        return started

    def report(self, name: str, status: EndpointStatus, reason: str | None) -> None:
        """Take an endpoint's new state from the hosting."""
        with self._state_lock:
            endpoint = self._backend().endpoints.get(name)
            if endpoint is not None:
                endpoint.endpoint_status = status.value
                endpoint.failure_reason = reason
                endpoint.last_modified_time = _now()

    def _backend(self) -> Any:
        return models.sagemaker_backends[self._identity.account_id][self._identity.region]

    def _the_hosting(self) -> EndpointHosting:
        if self._hosting is None:
            raise RuntimeError("SageMakerApi is used before install()")
        return self._hosting

    def _check_variants(self, _config: object, variants: list[dict[str, Any]]) -> None:
        if problems := self._rules.problems(variants):
            raise ValidationError(message=" ".join(problems))

    def _create_model(self, create: Any, backend: Any, **arguments: Any) -> Any:
        _refuse_existing(backend._models, "model", arguments["model_name"])
        return create(backend, **arguments)

    def _keep_isolation(self, answer: Any, response: Any) -> Any:
        answered = answer(response)
        model = response.sagemaker_backend._models[response._get_param("ModelName")]
        model.enable_network_isolation = bool(response._get_param("EnableNetworkIsolation"))
        return answered

    def _create_config(self, create: Any, backend: Any, **arguments: Any) -> Any:
        _refuse_existing(backend.endpoint_configs, "endpoint configuration", arguments["endpoint_config_name"])
        named = [variant.get("ModelName") for variant in arguments["production_variants"]]
        for variant in arguments["production_variants"]:
            named += [pool.get("ModelNameOverride") for pool in variant.get("InstancePools", ())]
        if missing := sorted({str(name) for name in named if name and name not in backend._models}):
            raise ValidationError(message=" ".join(f"Could not find model '{name}'." for name in missing))
        return create(backend, **arguments)

    def _create_endpoint(self, create: Any, backend: Any, **arguments: Any) -> Any:
        name = arguments["endpoint_name"]
        _refuse_existing(backend.endpoints, "endpoint", name)
        endpoint = create(backend, **arguments)
        endpoint.endpoint_status = EndpointStatus.CREATING.value
        self._the_hosting().create(name, self._plans(backend, arguments["endpoint_config_name"]))
        return endpoint

    def _update_endpoint(self, response: Any) -> ActionResult:
        backend = response.sagemaker_backend
        name = response._get_param("EndpointName")
        config_name = response._get_param("EndpointConfigName")
        backend.describe_endpoint(name)  # raises when there is none
        backend.describe_endpoint_config(config_name)
        endpoint = backend.endpoints[name]
        if endpoint.endpoint_status != EndpointStatus.IN_SERVICE.value:
            raise ValidationError(message=f"Cannot update endpoint {name} in state {endpoint.endpoint_status}.")
        plans = self._plans(backend, config_name)
        variants = backend.endpoint_configs[config_name].production_variants

        def moved() -> None:
            with self._state_lock:
                endpoint.endpoint_config_name = config_name
                endpoint.production_variants = _describe_variants(endpoint, variants)

        given = response._get_param("DeploymentConfig")
        if given is None and response._get_param("RetainDeploymentConfig"):
            given = getattr(endpoint, "last_deployment_config", None)
        rollout = self._rollout(given or {})
        endpoint.last_deployment_config = given
        endpoint.endpoint_status = EndpointStatus.UPDATING.value
        endpoint.failure_reason = None
        self._the_hosting().update(name, plans, moved, rollout)
        return ActionResult({"EndpointArn": endpoint.arn})

    def _rollout(self, config: Mapping[str, Any]) -> Rollout:
        policy = config.get("BlueGreenUpdatePolicy", {})
        routing = policy.get("TrafficRoutingConfiguration", {})
        names = [alarm["AlarmName"] for alarm in config.get("AutoRollbackConfiguration", {}).get("Alarms", ())]
        alarms = cloudwatch_backends[self._identity.account_id][self._identity.region].alarms
        if missing := [name for name in names if name not in alarms]:
            raise ValidationError(message=f"Roll-back alarms that do not exist: {', '.join(missing)}.")

        def tripped() -> list[str]:
            with self._state_lock:
                return [name for name in names if name in alarms and alarms[name].state_value == "ALARM"]

        return Rollout(
            baking_seconds=min(routing.get("WaitIntervalInSeconds", 0), self._settings.longest_baking_seconds),
            termination_wait_seconds=min(
                policy.get("TerminationWaitInSeconds", 0), self._settings.longest_termination_wait_seconds
            ),
            tripped=tripped,
        )

    def _delete_endpoint(self, backend: Any, endpoint_name: str) -> None:
        backend.describe_endpoint(endpoint_name)  # raises when there is none
        endpoint = backend.endpoints[endpoint_name]
        if endpoint.endpoint_status == EndpointStatus.DELETING.value:
            raise ValidationError(message=f"Cannot delete endpoint {endpoint_name}: it is being deleted.")
        endpoint.endpoint_status = EndpointStatus.DELETING.value

        def gone() -> None:
            with self._state_lock:
                if backend.endpoints.get(endpoint_name) is endpoint:
                    del backend.endpoints[endpoint_name]

        self._the_hosting().delete(endpoint_name, gone)

    def _plans(self, backend: Any, config_name: str) -> list[VariantPlan]:
        variants = backend.endpoint_configs[config_name].production_variants
        return [_plan(backend, variant, self._images) for variant in variants]


def _plan(backend: Any, variant: Mapping[str, Any], images: ImageStore) -> VariantPlan:
    # Of the pools, the one SageMaker tries first gets its capacity here; its model override replaces the variant's.
    pools = sorted(variant.get("InstancePools", ()), key=lambda pool: pool["Priority"])
    override = pools[0].get("ModelNameOverride") if pools else None
    model = backend.describe_model(override or variant["ModelName"])
    container = model.primary_container or (model.containers[0] if model.containers else {})
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    image = container.get("Image", "")
    return VariantPlan(
        variant=variant["VariantName"],
        image=image,
        environment=dict(container.get("Environment", {})),
        model_data=source.get("S3Uri") or container.get("ModelDataUrl"),
        startup_seconds=variant.get("ContainerStartupHealthCheckTimeoutInSeconds"),
        impossible=mismatch(image, variant.get("InferenceAmiVersion"), images),
        sidecar="InferenceAmiVersion" in variant,
    )


_KEPT = ("InstancePools", "ManagedInstanceScaling", "RoutingConfig", "CapacityReservationConfig")


def _describe_variants(_endpoint: object, variants: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Turn a config's variants into the ones DescribeEndpoint lists."""
    described = []
    for variant in variants:
        weight = variant.get("InitialVariantWeight", 1.0)
        count = variant.get("InitialInstanceCount")
        counts = {} if count is None else {"CurrentInstanceCount": count, "DesiredInstanceCount": count}
        kept = {key: variant[key] for key in _KEPT if key in variant}
        if pools := variant.get("InstancePools"):
            # Capacity is always found in the pool that is tried first; DescribeEndpoint says how many each pool gave.
            first = min(pools, key=lambda pool: pool["Priority"])
            kept["InstancePools"] = [
                {"InstanceType": pool["InstanceType"], "CurrentInstanceCount": (count or 1) if pool is first else 0}
                for pool in pools
            ]
        described.append(
            {"VariantName": variant["VariantName"], "CurrentWeight": weight, "DesiredWeight": weight, **counts, **kept}
        )
    return described


def _refuse_existing(existing: Mapping[str, object], kind: str, name: str) -> None:
    if name in existing:
        raise ValidationError(message=f"Cannot create already existing {kind} '{name}'.")


def _now() -> datetime:
    # moto keeps naive times in UTC.
    return datetime.now(UTC).replace(tzinfo=None)
