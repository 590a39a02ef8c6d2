"""Copies one pinned revision of a model from the Hugging Face hub to S3, and says so only when it is complete.

Runs by itself in CodeBuild's standard image (`python3 -m weights_staging`) and, for the stack, as a Lambda function
(`weights_staging.custom_resource`): standard library and boto3, nothing of the project. Importable from the project
too, whose operators' commands read the manifest with the same code.
"""
