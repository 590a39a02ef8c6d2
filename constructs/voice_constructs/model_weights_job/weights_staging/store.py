"""The bucket: what is there and right, uploads with checksums, the manifest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from .hub import HubFile
from .manifest import Manifest, StagedFile, manifest_key, prefix_of

PART_BYTES = 16 * 1024 * 1024
"""Of a multipart upload: 10 GB in 640 parts, each with a SHA-256 that S3 checks as it arrives; S3 takes 10,000."""

_SHA256, _BLOB = "sha256", "git-blob"
"""Metadata of an object: checksums of the content that was verified before it was uploaded."""


class WeightsStore:
    """One bucket of staged weights.

    Args:
        s3: a boto3 client.
        bucket: its name.
    """

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def find(self, model: str, revision: str, file: HubFile) -> StagedFile | None:
        """Return a file that is there and right by size and by the checksum noted when it was verified, else None."""
        head = self._head(prefix_of(model, revision) + file.path)
        if head is None or head["ContentLength"] != file.size:
            return None
        noted = head.get("Metadata", {})
        right = noted.get(_SHA256) == file.sha256 if file.sha256 else noted.get(_BLOB) == file.blob_id
        return _staged(file, str(noted[_SHA256]), head) if right and _SHA256 in noted else None

    def upload(
        self,
        model: str,
        revision: str,
        file: HubFile,
        *,
        source: Path,
        sha256: str,
        progress: Callable[[int], None],
    ) -> StagedFile:
        """Upload a verified file; `progress` is told of each piece's bytes.

        Raises:
            boto3.exceptions.S3UploadFailedError: S3 refused, or a part arrived wrong.
        """
        key = prefix_of(model, revision) + file.path
        self._s3.upload_file(
            str(source),
            self._bucket,
            key,
            ExtraArgs={"Metadata": {_SHA256: sha256, _BLOB: file.blob_id}, "ChecksumAlgorithm": "SHA256"},
            Callback=progress,
            Config=TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES),
        )
        head = self._head(key)
        if head is None or head["ContentLength"] != file.size:
            raise OSError(f"s3://{self._bucket}/{key} is not there after its upload, or not whole")
        return _staged(file, sha256, head)

    def manifest(self, model: str, revision: str) -> Manifest | None:
        """Return the manifest of a revision, None when there is none.

        Raises:
            ValueError: what is there is no manifest, or not of this revision.
        """
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=manifest_key(model, revision))
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        found = Manifest.from_json(answer["Body"].read())
        if (found.model, found.revision) != (model, revision):
            raise ValueError(f"it is of {found.model}@{found.revision}")
        return found

    def write_manifest(self, manifest: Manifest) -> str:
        """Write the manifest, by which all is complete; return its URI."""
        key = manifest_key(manifest.model, manifest.revision)
        self._s3.put_object(
            Bucket=self._bucket,
            Key=key,
            Body=manifest.to_json().encode(),
            ContentType="application/json",
            ChecksumAlgorithm="SHA256",
        )
        return f"s3://{self._bucket}/{key}"

    def sizes(self, model: str, revision: str) -> dict[str, int]:
        """Return path to bytes of everything in a revision's folder."""
        prefix = prefix_of(model, revision)
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        return {
            str(item["Key"]).removeprefix(prefix): int(item["Size"])
            for page in pages
            for item in page.get("Contents", ())
        }

    def checksum(self, model: str, revision: str, path: str) -> str | None:
        """Return the SHA-256 that S3 keeps of an object now; None when it keeps none or the object is gone."""
        head = self._head(prefix_of(model, revision) + path)
        return None if head is None else head.get("ChecksumSHA256")

    def chunks(self, model: str, revision: str, path: str, size: int) -> Any:
        """Yield the content of a file in pieces of `size` bytes."""
        key = prefix_of(model, revision) + path
        return self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].iter_chunks(size)

    def _head(self, key: str) -> dict[str, Any] | None:
        try:
            head: dict[str, Any] = self._s3.head_object(Bucket=self._bucket, Key=key, ChecksumMode="ENABLED")
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        return head


def _staged(file: HubFile, sha256: str, head: dict[str, Any]) -> StagedFile:
    return StagedFile(file.path, file.size, sha256, head.get("ChecksumSHA256"))


def _is_missing(error: ClientError) -> bool:
    return error.response["Error"]["Code"] in {"404", "NoSuchKey", "NotFound"}
