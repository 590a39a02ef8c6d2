"""The web page: speak, transcribe and talk in a browser, from one process that listens on loopback only."""
