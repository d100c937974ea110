import { MailkeepError } from './mailkeep-error.ts';

export interface ServiceUnitsFacts {
  /** Files that are there already, and say something else. */
  readonly 'service-units-differ': { readonly files: readonly string[] };
  /** A path with a control character, which no unit can name. */
  readonly 'service-units-path': { readonly path: string };
  readonly 'service-units-unwritable': { readonly file: string; readonly reason: string };
}

/** An error of installing units. Exit code 2. */
export function serviceUnitsError<C extends keyof ServiceUnitsFacts>(
  code: C,
  facts: ServiceUnitsFacts[C],
  cause?: unknown,
): MailkeepError<C, ServiceUnitsFacts[C]> {
  return new MailkeepError(code === 'service-units-unwritable' ? 'disk' : 'usage', code, facts, {
    cause,
  });
}
