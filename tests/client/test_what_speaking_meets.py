"""What the protocol and the field are known to do to a voice, and the test of each: none may go astray."""

import pytest

from tests.named_tests import astray

TRAPS = {
    "without stream_audio and pcm an utterance arrives as one file at its end": (
        "client/protocol/test_speech.py::test_streamed_pcm_is_always_asked_for",
        "client/session/test_manner.py::test_everything_always_streams_pcm",
    ),
    "a text is spoken as one request, only at input.done, and the server splits nothing": (
        "client/session/test_synthesizer.py::test_a_text_is_spoken_sentence_by_sentence_on_one_connection",
        "client/session/test_speech.py::test_a_sentence_is_asked_for_when_its_end_is_known_and_not_when_the_text_ends",
    ),
    "releases 0.18 to 0.24 end the connection after input.done; 0.30 can split by itself": (
        "client/session/test_speech.py::test_a_release_that_ends_the_connection_after_each_utterance",
        "client/session/test_speech.py::test_a_release_that_cuts_a_sentence_into_parts",
    ),
    "unknown fields of the configuration are ignored without a word": (
        "client/session/test_manner.py::test_every_field_is_one_that_the_server_knows",
    ),
    "session.done alone is no success": (
        "client/session/test_synthesizer.py::test_a_voice_the_server_refuses_is_an_error_though_the_session_is_done",
        "client/session/test_synthesizer.py::test_done_without_audio",
        "client/session/test_synthesizer.py::test_an_error_flag_without_an_error_event",
        "client/session/test_speech.py::test_an_error_in_a_session_that_is_done_is_an_error_and_the_voice_goes_on",
        "client/session/test_speech.py::test_an_error_before_the_audio_is_the_models_and_no_loss",
        "client/session/test_speech.py::test_an_end_that_is_told_twice_is_one",
    ),
    "the server reads nothing while it speaks: closing the stream is the only interruption": (
        "client/session/test_speech.py::test_the_next_text_is_spoken_at_once_and_hears_nothing_of_the_old_one",
        "client/session/test_speaking_faults.py::test_barge_in_keeps_the_http2_connection",
        "soak/voice/test_barge_in.py::test_no_late_sound_no_stream_left_and_the_next_words_right",
    ),
    "a configuration that is refused gives an error and a close without a close frame": (
        "client/session/test_synthesizer.py::test_a_configuration_the_server_refuses_is_an_error_and_no_loss",
        "client/session/test_synthesizer.py::test_a_model_the_server_does_not_have_is_an_error",
    ),
    "an utterance sent before the first is done is queued": (
        "client/session/test_speech.py::test_the_sentence_after_is_asked_for_while_one_is_spoken_and_no_further",
    ),
    "blank text gives session.done with no sentence": (
        "client/session/test_synthesizer.py::test_no_text_is_bad_input",
        "client/session/test_speech.py::test_no_text_at_all_is_bad_input",
    ),
    "a configuration is taken between utterances and refused while text is buffered": (
        "client/session/test_speech.py::test_a_spare_stream_saves_the_opening_and_is_kept_alive",
        "client/session/test_speech.py::test_a_stream_is_not_touched_while_it_speaks",
    ),
    "a language is a name and no code; voices are nine names": (
        "client/session/test_manner.py::test_names_are_the_servers",
        "client/session/test_manner.py::test_all_problems_are_told_together_with_suggestions",
        "client/session/test_speech.py::test_the_model_is_asked_for_its_voices",
    ),
    "an idle stream is ended after 30 s": (
        "client/session/test_speech.py::test_an_idle_time_out_that_meets_the_next_text_is_no_refusal",
        "client/session/test_synthesizer.py::test_a_stream_that_ended_while_idle_is_replaced",
    ),
    "a message has at most 128 KiB": (
        "client/protocol/test_speech.py::test_a_message_over_the_servers_limit_is_not_sent",
        "client/session/test_sentences.py::test_nothing_is_too_long_and_nothing_is_lost",
    ),
    "only some paths are let through, slashless": (
        "client/cli/test_endpoints.py::test_speech_becomes_a_wav_file",
        "integration/test_bad_input.py::test_an_invocation_path_with_a_leading_slash_is_refused",
        "integration/test_speaking.py::test_its_container_takes_no_stream_on_the_default_path",
    ),
    "a stream lasts 30 minutes": (
        "client/session/test_speech.py::test_a_stream_that_grew_old_is_left_between_sentences",
    ),
}
"""What vLLM-Omni 0.26 and SageMaker do."""

REPORTS = {
    "pipecat #5807: a 424 is withheld": (
        "client/session/test_speaking_faults.py::test_an_endpoint_that_cannot_be_opened",
    ),
    "aws-sdk-python #13: a cancelled read loses the stream": (
        "client/transport/test_stream.py::test_a_cancelled_receive_loses_nothing",
        "client/session/test_synthesizer.py::test_a_listener_that_ends_at_any_moment_leaves_no_stream",
    ),
    "nova-samples #154: writing after the server closed": (
        "client/session/test_synthesizer.py::test_streams_that_end_as_soon_as_they_are_open",
        "client/session/test_speaking_faults.py::test_the_error_says_what_and_where",
    ),
    "smithy-python #717: the default transport cannot stream both ways": (
        "client/transport/test_pinned_sdk.py::test_the_client_sends_through_ours",
    ),
    "transcribe-streaming-sdk #119: credentials of every source, refreshed": (
        "client/transport/test_identity.py::test_a_key_that_rotates_between_streams",
        "client/transport/test_stream.py::test_the_environment_is_left_alone",
    ),
    "transcribe-streaming-sdk #26: buffers grow": (
        "client/session/test_speech.py::test_a_listener_that_takes_nothing_makes_the_model_wait",
        "client/session/test_text_input.py::test_the_first_sentence_of_a_long_text_waits_for_no_other",
    ),
    "vllm #36015: a session goes silent for good": (
        "client/session/test_synthesizer.py::test_silence_instead_of_a_voice",
        "client/session/test_synthesizer.py::test_a_voice_that_stops_halfway",
        "client/session/test_synthesizer.py::test_signs_of_life_are_no_audio",
    ),
    "Qwen3-TTS #296: streaming switched off silently": (
        "integration/test_speaking.py::test_the_voice_speaks_and_the_ear_reads_it_back",
    ),
    "vllm-omni #4576: a short text yields long gibberish": (
        "client/session/test_speech.py::test_babble_is_stopped_asked_for_once_more_and_told",
    ),
    "pipecat #3986: stale audio after an interruption": (
        "client/session/test_speech.py::test_nothing_is_delivered_after_cancel_and_the_loop_ends_well",
        "client/session/test_speech.py::test_audio_that_waits_for_its_listener_is_dropped_though_the_model_is_done",
    ),
    "openai-agents #1824: odd bytes": ("client/session/test_synthesizer.py::test_odd_frames_become_whole_samples",),
    "naudio #688, pocket-tts #229, Kokoro-FastAPI #94: headers that lie": (
        "client/audio/test_speech_files.py::test_the_header_tells_the_truth",
        "client/cli/test_speak.py::test_what_is_piped_is_a_wav_or_just_samples",
    ),
    "AWS's samples: exit code 0 after an error": (
        "client/cli/test_speak.py::test_a_failure_in_the_middle_leaves_no_file",
    ),
}
"""What users of the same parts reported (repository and number)."""


@pytest.mark.parametrize("met", [*TRAPS, *REPORTS])
def test_each_has_its_tests(met: str) -> None:
    assert astray((TRAPS | REPORTS)[met]) == []
