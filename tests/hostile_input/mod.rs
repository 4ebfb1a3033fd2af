//! Input that is legal, or nearly so, and meant to harm: its cost is measured and bounded. `corpus` is given to every way in: the broker
//! (`by_broker`), the database and the library (`by_database`), and the command line (`cli/tests/program/hostile_input.rs`). `siege` repeats it against a
//! worker for a given time.
//!
//! # Problems found once
//!
//! Some of it is tested beside its mechanism:
//!
//! | harm | test |
//! |---|---|
//! | valid submissions lost with a poisonous one that the broker has given up | `poison_messages::a_poisonous_submission_takes_no_good_ones_with_it`, `poison_messages::a_poisonous_report_takes_no_good_ones_with_it` |
//! | a legal batch that gets the database's process killed | `memory::documents_that_were_submitted_are_read_one_by_one`, `expensive_submissions::a_submission_that_ends_its_connection_is_refused_and_its_neighbours_are_stored` |
//! | a header that overflows the stack of every worker | `nested_headers::a_header_of_twenty_thousand_levels_ends_nobody` |
//! | a number that stalls its queue permanently | `oversized_numbers::a_bomb_is_a_dead_letter_and_its_queue_goes_on`, `oversized_numbers::a_bomb_that_is_sent_is_refused_before_it_goes_off` |
//! | a `replyTo` that ends the publisher's channel again and again | `unanswered::a_message_that_the_broker_refuses_costs_itself_its_attempts_and_its_neighbours_nothing`, `unanswered::a_submission_with_a_reserved_name_is_rejected` |
//! | a reader who runs functions of triggers | `grants::a_reader_can_not_use_the_functions_of_triggers` |
//! | messages far beyond the limit, gathered in memory | `expensive_submissions::bodies_beyond_the_limit_wait_in_the_broker` |
//! | passwords in errors and listings | `url::no_part_of_a_password_is_shown`, `refusals::no_error_shows_a_password` |
//! | programs that inherit the worker's passwords | `program_environment::programs_get_no_password_of_their_worker` |
//! | a producer that fills the database or the broker | `intake_limits::a_full_queue_of_submissions_refuses_more_and_drops_none`, `intake_limits::submissions_are_taken_in_no_faster_than_is_allowed`, `intake_limits::submissions_for_a_full_queue_wait_a_while_and_others_pass` |
//! | programs killed without notice, and what they leave running | `process_shutdown::a_program_may_tidy_up_at_its_timeout_and_has_still_failed`, `process_shutdown::processes_left_by_a_program_end_with_it` |
//! | files that others can read | `program_environment::files_with_payloads_and_passwords_are_the_owners_alone` |
//! | output that steers a terminal | `output::json_can_not_steer_the_terminal_and_stays_the_same_json`, `program_environment::listings_escape_control_characters` |
//! | two headers of one variable | `program_environment::headers_that_share_a_variable_are_passed_as_json_only` |
//! | variables that Kubernetes sets | `tests::variables_of_kubernetes_are_nobodys_mistake` |
//! | a payload that is small until `send` writes it out | `oversized_numbers::a_bomb_that_is_sent_is_refused_before_it_goes_off` |
//! | all of it at once, for long | `siege::good_jobs_are_on_time_beside_the_whole_corpus` |
//! | starts that are summed and kept forever | `rates::starts_older_than_their_rates_period_are_removed` |

mod by_broker;
mod by_database;
mod corpus;
mod memory;
mod odd_rows;
mod oversized_numbers;
mod producer;
mod siege;
