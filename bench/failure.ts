const failures = new WeakSet<Error>();

/** What its user can mend: its message says what happened and what to do. Any other error is a defect of ours. */
export function failed(message: string): Error {
  const error = new Error(message);
  failures.add(error);
  return error;
}

export function isFailure(error: unknown): error is Error {
  return error instanceof Error && failures.has(error);
}
