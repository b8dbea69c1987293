/** Tells a job that is over from a server that refuses: clients may try again what the latter answered. */
export const JOB_STATE_HEADER = 'millrace-job-state';
