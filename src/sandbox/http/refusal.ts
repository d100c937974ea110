/** Plain values that describe the error to a client; the `params` of the error envelope. */
export type RefusalParams = Readonly<Record<string, unknown>>;

/** An answer of 4xx or 5xx, thrown by an operation and written in the envelope of its surface. */
export class Refusal extends Error {
  override readonly name = 'Refusal';

  constructor(
    readonly status: number,
    /** SCREAMING_SNAKE_CASE, as clients branch on it. */
    readonly code: string,
    message: string,
    readonly params: RefusalParams = {},
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/** 422: what is wrong with each field, by its path in body or query. */
export function invalid(fields: Readonly<Record<string, readonly string[]>>): Refusal {
  const [first] = Object.entries(fields);
  const message =
    first === undefined ? 'Validation failed' : `${first[0]}: ${first[1][0] ?? 'is not valid'}`;
  return new Refusal(422, 'ERR_VALIDATION_FAILED', message, { fields });
}
