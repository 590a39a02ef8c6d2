"""Bridge between SageMaker's bidirectional streaming and vLLM's `/v1/realtime`.

SageMaker opens a WebSocket to port 8080 of the container; vLLM serves its realtime WebSocket on loopback. The
bridge joins the two, finishes what a client leaves behind, and says why when something fails. It ships alone in
the container: it stands on websockets and h11 of the base image and on nothing else.
"""
