"""What the wire and the field are known to do to somebody who is heard, and the test of each: none may go astray."""

import pytest

from tests.named_tests import astray

FAULTS = {
    "the server is killed, closes, says GOAWAY or resets the stream in the middle": (
        "client/transport/test_faults.py::test_a_lost_connection_is_told_to_both_directions",
        "client/transport/test_faults.py::test_a_blocked_send_is_told_of_the_loss",
        "client/transport/test_faults.py::test_a_stopping_platform_ends_its_streams",
        "client/transport/test_hostile_server.py::test_a_stream_that_is_cut_is_not_taken_for_finished",
        "client/transport/test_connection.py::test_a_tls_connection_that_ends_in_any_way_is_a_loss",
        "client/session/test_faults_on_demand.py::test_one_notice_and_every_word",
    ),
    "the same before the response's head": (
        "client/transport/test_faults.py::test_a_connection_lost_while_opening",
        "client/transport/test_faults.py::test_an_answer_that_does_not_come",
        "client/transport/test_hostile_server.py::test_an_open_that_fails",
        "client/session/test_faults_on_demand.py::test_an_endpoint_that_cannot_be_opened",
    ),
    "credentials or signing fail": (
        "client/transport/test_faults.py::test_a_request_that_cannot_be_signed_fails_at_once",
        "client/transport/test_faults.py::test_a_wrong_secret_key",
        "client/transport/test_identity.py::test_a_source_that_fails",
        "client/transport/test_identity.py::test_no_credentials_at_all",
        "client/transport/test_identity.py::test_a_source_that_does_not_answer",
    ),
    "a receive is cancelled": ("client/transport/test_stream.py::test_a_cancelled_receive_loses_nothing",),
    "many sends at once": (
        "client/transport/test_stream.py::test_concurrent_sends_keep_the_signature_chain",
        "client/transport/test_stream.py::test_cancelled_sends_keep_the_signature_chain",
    ),
    "nobody reads": (
        "client/transport/test_stream.py::test_an_unread_stream_holds_bounded_memory_and_loses_nothing",
        "client/transport/test_stream.py::test_closing_an_unread_flood_is_quick",
    ),
    "the server stops reading": (
        "client/transport/test_faults.py::test_a_send_that_nobody_takes",
        "client/transport/test_cancellation.py::test_a_cancelled_send_in_a_full_window_is_not_sent_and_later_ones_are",
    ),
    "many opens at once, and more streams than a connection takes": (
        "client/transport/test_stream.py::test_concurrent_opens_share_one_connection",
        "client/transport/test_stream.py::test_a_full_connection_gets_a_second_one",
        "client/transport/test_faults.py::test_many_opens_share_one_failure",
    ),
    "a certificate that is not trusted": (
        "client/transport/test_faults.py::test_an_untrusted_certificate_is_named_in_time",
        "client/cli/test_endpoints.py::test_a_certificate_that_is_not_trusted_is_4",
    ),
    "an HTTP error": (
        "client/transport/test_hostile_server.py::test_an_open_that_fails",
        "client/transport/test_faults.py::test_a_container_that_takes_no_stream",
        "client/transport/test_faults.py::test_a_failed_open_leaves_its_siblings_alone",
        "client/transport/test_stream.py::test_close_is_idempotent_and_later_calls_say_closed",
    ),
    "small messages wait 45 ms (Nagle and delayed acknowledgement)": (
        "client/transport/test_stream.py::test_small_messages_do_not_wait_for_nagle",
    ),
}
"""What hangs, or passes for success, with the SDK's stock transport."""

REPORTS = {
    "pipecat #5807: a 424 is withheld": ("client/transport/test_faults.py::test_a_container_that_takes_no_stream",),
    "aws-sdk-python #13, strands #4253: a cancelled read loses the stream or its error": (
        "client/transport/test_stream.py::test_a_cancelled_receive_loses_nothing",
        "client/transport/test_cancellation.py::test_an_open_may_be_cancelled_at_any_step",
        "client/transport/test_cancellation.py::test_a_close_may_be_cancelled_at_any_step",
    ),
    "nova-samples #154: writing after the server closed raises something obscure": (
        "client/transport/test_faults.py::test_a_lost_connection_is_told_to_both_directions",
        "client/session/test_faults_on_demand.py::test_the_error_says_what_and_where",
    ),
    "smithy-python #717, livekit #7076: an upgrade swaps the transport": (
        "client/transport/test_pinned_sdk.py::test_versions_are_the_examined_ones",
        "client/transport/test_pinned_sdk.py::test_the_client_sends_through_ours",
    ),
    "transcribe-streaming-sdk #119: credentials of profiles and SSO, refreshed": (
        "client/transport/test_identity.py::test_a_stream_with_credentials_from_a_process",
        "client/transport/test_identity.py::test_temporary_credentials_that_are_about_to_expire_are_refreshed",
        "client/transport/test_identity.py::test_a_key_that_rotates_between_streams",
        "client/transport/test_stream.py::test_the_environment_is_left_alone",
    ),
    "transcribe-streaming-sdk #26: a long file sent too fast": (
        "client/audio/test_pacing.py::test_late_wake_ups_do_not_add_up_over_an_hour",
        "client/session/test_transcriber.py::test_audio_goes_at_the_speed_of_speech_while_words_come_back",
        "soak/client/test_long_session.py::test_two_hours",
    ),
    "vllm #36015, #35863: a session goes silent for good": (
        "client/session/test_long_sessions.py::test_a_fresh_session_hears_all_of_it",
        "client/session/test_long_sessions.py::test_a_model_that_stays_dumb_is_an_error_in_the_end",
        "client/session/test_long_sessions.py::test_a_source_that_stops_bringing_audio_holds_no_stream_open",
    ),
    "vllm #33962: done never comes": (
        "client/session/test_transcriber.py::test_done_never_comes",
        "client/session/test_transcriber.py::test_a_done_that_never_comes_is_asked_for_anew",
        "client/session/test_transcriber.py::test_empty_deltas_for_ever_after_the_end",
    ),
    "vllm #47614: minutes of empty deltas over real speech": (
        "client/session/test_long_sessions.py::test_a_fresh_session_hears_all_of_it",
        "client/session/test_long_sessions.py::test_music_without_words_is_tried_once_more_and_then_believed",
    ),
    "vllm #39996: the model's length kills the engine": (
        "client/session/test_long_sessions.py::test_the_models_length_is_never_reached",
    ),
    "mistral client #357: the last words are withheld": (
        "client/session/test_long_sessions.py::test_each_turn_is_an_utterance_and_pauses_are_not_sent",
    ),
    "naudio #688: WAV of length 0 or 0xFFFFFFFF": (
        "client/audio/test_files.py::test_a_wav_of_unknown_length_is_read_to_its_end",
    ),
    "AWS's samples: exit code 0 after an error": (
        "client/cli/test_endpoints.py::test_a_killed_container_is_4_before_any_deadline",
        "client/session/test_transcriber.py::test_an_end_before_the_audio_is_over_is_no_success",
    ),
    "AWS's samples: int32 scaled wrongly, chunks resampled one by one": (
        "client/audio/test_files.py::test_length_pitch_and_level_survive",
        "client/audio/test_files.py::test_every_rate_keeps_pitch_and_level_over_all_blocks",
        "client/audio/test_files.py::test_what_the_new_rate_cannot_hold_does_not_come_back_as_another_tone",
    ),
    "the platform ends a stream after 30 minutes": (
        "client/session/test_long_sessions.py::test_a_stream_is_left_before_the_platform_ends_it",
        "client/transport/test_faults.py::test_the_longest_stream_is_cut_by_the_platform",
    ),
}
"""What users of the same parts reported (repository and number)."""


@pytest.mark.parametrize("met", [*FAULTS, *REPORTS])
def test_each_has_its_tests(met: str) -> None:
    assert astray((FAULTS | REPORTS)[met]) == []
