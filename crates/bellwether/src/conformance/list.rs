//! The list of cases, once.

/// Makes one test of every case, for one engine.
///
/// `fixture` names an `async fn() -> Fixture` beside the macro. `restart: no` and
/// `virtual_clock: no` say that the engine keeps nothing over a restart, or that its clock is its
/// own: of the cases that need it no tests are made.
#[macro_export]
macro_rules! conformance_tests {
    (fixture: $fixture:ident, restart: $restart:ident, virtual_clock: $virtual_clock:ident $(,)?) => {
        $crate::conformance_tests! { @group yes $fixture queue [
            create_is_idempotent_under_a_race
            an_existing_queue_is_left_alone
            settings_have_the_documented_defaults
            settings_out_of_range_are_refused
            an_update_changes_what_it_names
            a_refused_update_changes_nothing
            names_compare_without_case
            names_that_cannot_be_are_refused
            an_unknown_queue_is_refused
            a_deleted_queue_takes_everything_along
            deleting_answers_those_who_wait
            purge_spares_what_is_locked
            purge_spares_what_is_younger
            a_status_refuses_what_it_says
            a_queue_switched_on_serves_those_who_wait
            counters_show_every_state
            what_came_in_is_there_or_left
            queues_are_listed_by_name
            an_idle_queue_deletes_itself
        ] }
        $crate::conformance_tests! { @group yes $fixture message [
            every_field_survives
            any_bytes_survive
            properties_of_every_type_survive
            sequence_numbers_grow
            a_batch_is_all_or_none
            a_batch_keeps_its_order
            a_scheduled_message_waits_for_its_time
            a_schedule_in_the_past_is_now
            a_scheduled_message_can_be_cancelled
            peek_shows_every_state_and_changes_nothing
            peek_starts_at_a_number
            a_message_returns_to_its_place
        ] }
        $crate::conformance_tests! { @group yes $fixture time_to_live [
            an_expired_message_is_never_handed_out
            an_expired_message_becomes_a_dead_letter
            the_queue_cuts_the_time_to_live
            a_time_to_live_of_zero_is_refused
            a_locked_message_may_be_completed_late
            a_message_that_comes_back_late_expires
            a_deferred_message_does_not_expire
            a_delayed_message_expires
            a_scheduled_message_lives_from_its_time
        ] }
        $crate::conformance_tests! { @group yes $fixture duplicate [
            an_id_is_accepted_once
            a_completed_id_is_still_known
            after_the_window_an_id_is_new
            scheduled_messages_take_part
            a_batch_is_looked_through
            without_an_id_nothing_is_a_duplicate
        ] }
        $crate::conformance_tests! { @group yes $fixture delivery [
            a_locked_message_is_not_delivered_twice
            nothing_is_an_answer
            receive_takes_the_first_available
            received_and_deleted_is_gone
            a_completed_message_never_comes_again
            a_delivery_is_settled_once
            stale_complete_is_refused
            lock_expiry_redelivers_with_a_higher_number
            renewing_keeps_the_lock
            a_lost_lock_cannot_be_renewed
            a_receive_may_choose_its_lock
            a_token_is_bound_to_its_queue
            settlements_stand_by_themselves
            a_dropped_delivery_is_abandoned
            competing_receivers_share_the_messages
        ] }
        $crate::conformance_tests! { @group yes $fixture settle [
            an_abandoned_message_comes_back_at_once
            a_released_message_is_not_counted
            a_delayed_message_comes_back_later
            too_many_deliveries_make_a_dead_letter
            every_counted_delivery_counts
            a_raised_maximum_gives_more_tries
            a_deferred_message_is_fetched_by_number
            deferred_messages_are_fetched_all_or_none
            a_deferred_message_goes_back_aside
            changed_properties_add_up
            changes_stay_when_nothing_more_changes
        ] }
        $crate::conformance_tests! { @group yes $fixture session [
            a_session_comes_in_order
            a_stalled_holder_blocks_only_its_lane
            a_session_is_required
            without_sessions_a_name_is_only_carried
            a_held_session_cannot_be_taken
            the_oldest_session_is_next
            waiting_for_a_session_is_served
            a_hold_that_runs_out_counts
            closing_a_session_does_not_count
            renewing_keeps_the_session
            an_abandoned_message_comes_next
            a_delayed_message_blocks_its_lane
            a_poison_message_blocks_its_lane
            a_deferred_message_belongs_to_its_session
            a_session_keeps_its_state
            a_state_has_limits
            sessions_are_listed
        ] }
        $crate::conformance_tests! { @group yes $fixture dead_letter [
            a_dead_letter_says_why
            a_dead_letter_needs_one_delivery
            a_dead_letter_stays_one
            dead_letters_do_not_expire
            dead_letters_occupy_the_queue
            a_redriven_message_starts_anew
            a_second_death_has_its_own_reason
            a_redriven_message_is_no_duplicate
            redrive_takes_the_oldest
            chosen_ones_are_redriven_all_or_none
            dead_letters_can_be_sent_elsewhere
            redrive_respects_the_size_of_its_target
            dead_letters_are_received_like_a_queue
        ] }
        $crate::conformance_tests! { @group yes $fixture operator [
            a_message_says_why_it_waits
            a_message_of_a_session_says_who_holds_it
            a_message_goes_on_with_its_past
            chosen_messages_are_removed
            leases_are_listed_with_their_kind
            who_led_is_remembered
        ] }
        $crate::conformance_tests! { @group yes $fixture forward [
            a_target_must_exist
            a_message_moves_on
            waiting_messages_move_on
            a_message_that_comes_back_moves_on
            a_scheduled_message_moves_on_when_due
            a_ring_ends
            what_the_target_refuses_becomes_a_dead_letter
            a_session_queue_takes_only_sessions
            dead_letters_are_collected
            uncollected_dead_letters_stay
        ] }
        $crate::conformance_tests! { @group yes $fixture demand [
            a_waiting_receive_is_served
            a_wait_ends
            those_who_wait_are_served_in_order
            what_becomes_ready_serves_those_who_wait
            a_hundred_wait_for_a_hundred_messages
            a_dropped_receive_leaks_nothing
            a_dropped_accept_leaks_nothing
            a_dropped_acquire_leaks_nothing
            closing_answers_those_who_wait
        ] }
        $crate::conformance_tests! { @group yes $fixture fence [
            a_term_that_is_held_counts
            a_deposed_leader_sends_nothing
            a_deposed_leader_settles_nothing
            a_term_that_has_run_out_does_not_count
            a_term_that_was_never_granted_does_not_count
            who_waits_under_a_term_hears_of_its_end
            what_was_done_under_a_term_is_told_again_after_it
            a_pump_ends_with_the_term_it_works_under
        ] }
        $crate::conformance_tests! { @group yes $fixture job [
            results_come_in_the_order_of_the_items
            a_fan_out_goes_on_where_it_was
            the_gather_message_comes_once
            a_failed_item_is_what_the_policy_says
            a_deposed_leader_dispatches_nothing
            a_late_result_is_dropped
            a_result_has_a_limit
            waiting_for_the_end_is_answered_by_it
            a_gather_may_be_dropped_and_called_again
        ] }
        $crate::conformance_tests! { @group yes $fixture schedule [
            a_slot_sends_one_message
            a_schedule_is_steered
            a_rule_that_makes_no_sense_is_refused
        ] }
        $crate::conformance_tests! { @group yes $fixture lease [
            a_second_bid_is_refused
            a_hundred_racers_have_one_winner
            terms_only_grow
            the_first_term_is_the_time
            a_repeated_acquire_keeps_its_term
            a_silent_holder_loses_after_its_time
            a_late_renewal_of_a_bound_lease_is_refused
            a_late_renewal_of_a_standing_lease_succeeds_if_untouched
            a_foreign_id_changes_nothing
            nothing_can_be_done_to_a_free_lease
            a_lease_can_be_broken
            a_break_without_a_period
            a_change_of_id_is_a_new_term
            durations_have_limits
            leases_are_listed_by_name
        ] }
        $crate::conformance_tests! { @group yes $fixture line [
            the_line_goes_by_priority_then_age
            a_successor_can_be_named
            a_wait_in_line_ends
            the_line_goes_on_when_the_holder_is_silent
            the_line_goes_on_after_a_break
            the_gone_are_passed_over
            a_holder_is_asked_to_step_down
            watchers_hear_of_changes
        ] }
        $crate::conformance_tests! { @group yes $fixture steering [
            an_operator_hands_over_to_a_member_in_line
            a_paused_lease_is_granted_to_nobody
            the_history_says_why_terms_ended
        ] }
        $crate::conformance_tests! { @group yes $fixture slots [
            as_many_hold_it_as_there_are_slots
            another_number_is_refused_while_anybody_holds_it
            a_silent_holder_makes_room_for_one
            every_term_that_is_held_is_a_fence
            all_are_asked_to_step_down
            the_history_has_every_slot
        ] }
        $crate::conformance_tests! { @group yes $fixture member [
            a_heartbeat_renews_everything
            a_mismatch_resyncs_and_renews_nothing
            a_list_settles_what_is_held
            an_unnamed_lease_runs_out
            a_late_heartbeat_brings_nothing_back
            a_goodbye_releases_everything
            a_silent_member_is_gone
            a_silent_members_lease_keeps_its_time
            joining_again_is_a_heartbeat
            members_are_listed
            whoever_never_joined_is_refused
        ] }
        $crate::conformance_tests! { @group yes $fixture exactly_once [
            a_repeated_send_adds_one_message
            without_a_number_nothing_is_remembered
            a_repeated_complete_succeeds
            a_repeated_abandon_counts_once
            a_repeated_receive_gives_the_same_delivery
            a_repeated_receive_of_nothing_may_find_something
            a_repeated_wait_waits_once
            a_repeated_acquire_is_the_same_grant
            a_repeated_accept_is_the_same_hold
            a_refusal_is_not_remembered
            numbers_belong_to_their_member
            outcomes_are_kept_until_heard
            copies_at_once_are_one
        ] }
        $crate::conformance_tests! { @group yes $fixture limits [
            a_message_can_be_too_large
            the_largest_message_arrives
            a_batch_can_be_too_large
            a_receive_has_a_limit
            a_receive_has_a_limit_in_bytes
            a_full_queue_refuses_senders
            a_full_store_refuses_senders
            remembered_ids_count_as_memory
            metadata_has_a_limit
            contents_must_travel_along
            properties_have_a_limit
            changes_can_be_too_large_together
        ] }
        $crate::conformance_tests! { @group $restart $fixture restart [
            accepted_messages_are_there
            every_state_is_kept
            completed_messages_stay_gone
            queues_and_settings_are_kept
            numbers_are_not_reused
            locks_are_kept_for_a_whole_duration
            tokens_are_never_reused
            deliveries_are_counted_on
            sessions_are_kept
            duplicates_are_remembered
            what_became_due_is_caught_up_with
            repeated_requests_get_the_first_outcome
            many_lives_keep_everything
        ] }
        $crate::conformance_tests! { @group $restart $fixture restart_job [
            a_planner_may_die_at_every_step
        ] }
        $crate::conformance_tests! { @group $restart $fixture restart_schedule [
            a_slot_is_sent_once_over_kills
        ] }
        $crate::conformance_tests! { @group $restart $fixture restart_lease [
            terms_go_on_growing
            a_lease_gets_grace
            a_holder_re_attaches
            every_state_is_kept
            a_repeated_acquire_gets_the_first_grant
            members_outlive_a_restart
            all_slots_get_grace_and_terms_go_on_growing
        ] }
        $crate::conformance_tests! { @group $virtual_clock $fixture model [
            one_after_the_other
            with_waiting
            a_longer_story
        ] }
    };
    (@group yes $fixture:ident $group:ident [$($case:ident)*]) => {
        mod $group {$(
            #[test]
            fn $case() {
                $crate::conformance::run(Box::pin(super::$fixture()), |fixture| {
                    Box::pin($crate::conformance::$group::$case(fixture))
                });
            }
        )*}
    };
    (@group no $fixture:ident $group:ident [$($case:ident)*]) => {};
}
