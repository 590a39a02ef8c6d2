"""moto's state as a pickle: what stands for what, and what may be read.

A pickle can run code when it is read, so only classes of moto, of this package and plain containers are.
"""

import importlib
import io
import pickle
import threading
import weakref
from collections import defaultdict
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from moto.core.base_backend import BackendDict, BaseBackend

from voice_local.control_plane.errors import StateError

_READ_PACKAGES = ("moto.", "voice_local.control_plane.")
_READ_CLASSES = frozenset(
    {
        # As factories of defaults: types of values.
        *(("builtins", name) for name in ("bool", "bytes", "dict", "float", "int", "list", "set", "str", "tuple")),
        *(("builtins", name) for name in ("bytearray", "complex", "frozenset", "object", "range")),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("copyreg", "_reconstructor"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("datetime", "timezone"),
        ("decimal", "Decimal"),
        ("functools", "partial"),
        ("re", "_compile"),
        ("uuid", "UUID"),
    }
)


def backend_key(backend: BaseBackend) -> tuple[str, str, str]:
    # moto.{service}.models, or a module below it
    return type(backend).__module__.split(".")[1], backend.account_id, backend.region_name


UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError, StateError)


def pickled(kept: dict[tuple[str, str, str], Any]) -> bytes:
    buffer = io.BytesIO()
    _Writer(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(kept)
    content = buffer.getvalue()
    # What cannot be read again is found now, not by the next cloud.
    _Rehearsal(io.BytesIO(content)).load()
    return content


def backend_of(service: str, account: str, region: str) -> BaseBackend:
    module = importlib.import_module(f"moto.{service}.models")
    for name, value in vars(module).items():
        if isinstance(value, BackendDict) and name.endswith("backends") and _is_of(value, service):
            backend: BaseBackend = value[account][region]
            return backend
    raise StateError(f"This version of moto has no service {service}.")


def _is_of(backends: Any, service: str) -> bool:
    return str(backends.backend.__module__).split(".")[1] == service


class _Writer(pickle.Pickler):
    """Backends stand for themselves: the ones of the next process take their place."""

    def persistent_id(self, obj: Any) -> Any:
        """Return what a backend is found by."""
        return backend_key(obj) if isinstance(obj, BaseBackend) else None

    def reducer_override(self, obj: Any) -> Any:
        """Say how to make again what moto keeps and pickle does not know."""
        if isinstance(obj, _LOCKS):
            return _fresh_lock, ()
        if isinstance(obj, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):  # of KMS keys
            pem = obj.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            return _private_key, (pem,)
        if isinstance(obj, weakref.WeakValueDictionary):
            return _weak_values, (), None, None, iter(list(obj.items()))
        if isinstance(obj, defaultdict) and type(obj) is not defaultdict:
            return _without_init, (type(obj),), vars(obj) or None, None, iter(list(dict.items(obj)))
        if isinstance(obj, defaultdict) and "<locals>" in getattr(obj.default_factory, "__qualname__", ""):
            return _without_default, (), None, None, iter(list(obj.items()))
        return NotImplemented


_LOCKS = (type(threading.Lock()), type(threading.RLock()))


def _fresh_lock() -> Any:
    return threading.RLock()


def _private_key(pem: bytes) -> Any:
    return load_pem_private_key(pem, None)


def _weak_values() -> "weakref.WeakValueDictionary[Any, Any]":
    return weakref.WeakValueDictionary()


def _without_init(kind: Any) -> Any:
    # Its own constructor takes other arguments than a defaultdict's; `put_back` gives it its factory.
    return kind.__new__(kind)


def _without_default() -> "defaultdict[Any, Any]":
    # `put_back` gives it the factory that moto made the backend's attribute with.
    return defaultdict(None)


def put_back(backend: BaseBackend, attributes: dict[str, Any]) -> None:
    """Give a fresh backend the attributes that were saved."""
    fresh = vars(backend)
    for name, value in attributes.items():
        if isinstance(value, defaultdict) and isinstance(made := fresh.get(name), defaultdict):
            value.default_factory = made.default_factory
        fresh[name] = value


class Reader(pickle.Unpickler):
    """Reads classes of moto, of this package and plain containers, and nothing else."""

    def persistent_load(self, pid: Any) -> Any:
        """Return the backend of this process."""
        return backend_of(*pid)

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that a saved state may hold."""
        if (module, name) in _READ_CLASSES:
            return super().find_class(module, name)
        if (module + ".").startswith(_READ_PACKAGES):
            found = super().find_class(module, name)
            # Not what such a module has imported from elsewhere.
            if (str(getattr(found, "__module__", "")) + ".").startswith(_READ_PACKAGES):
                return found
        raise StateError(f"A saved state holds no {module}.{name}: this file was not written by a local cloud.")


class _Rehearsal(Reader):
    """Reads a state without touching the backends."""

    def persistent_load(self, pid: Any) -> Any:
        """Return what the backend is found by."""
        return pid
