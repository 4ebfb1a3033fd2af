//! The worst problems of jBPM 3, Flowable, Activiti and Camunda 7 for their users, which do not exist here. Most are covered where the mechanism is
//! tested; docs/compare.md names the test for each. Here are those that no other test shows as users meet them.

mod compare_docs;
mod crashes;
mod fairness;
mod operations_docs;
mod stopping;

cases! {
    crashes {
        a_crash_holds_its_group_no_longer_than_its_job
        a_job_that_outlives_its_lease_runs_once
        nothing_waits_for_a_hand_to_free_it
    }
    fairness {
        a_busy_node_leaves_the_rest_to_others
        a_noisy_tenant_does_not_hold_up_others
        a_busy_group_makes_no_node_spin
        branches_that_meet_in_a_group_do_not_collide
        a_conflict_does_not_repeat_a_call_that_was_kept
        running_jobs_their_nodes_and_start_times_are_listed
        with_the_defaults_jobs_run_by_the_hundred
    }
    stopping {
        a_stop_starts_no_other_job_of_its_group
    }
}
