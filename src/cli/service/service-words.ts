import { MailkeepError } from '../../errors/mailkeep-error.ts';
import { type OriginAnswer, OriginRefusal } from '../../errors/origin.ts';
import { terminalLine, terminalSafe } from '../../mail/terminal-safe.ts';
import { visibleJson } from './visible-json.ts';

/** The refusal that an error is, or that left a write's outcome unknown; null where the service said nothing. */
export function refusalIn(error: unknown): OriginRefusal | null {
  if (error instanceof OriginRefusal) return error;
  return error instanceof MailkeepError && error.cause instanceof OriginRefusal
    ? error.cause
    : null;
}

/** Hints of syncs that speak of the next one, or guess at what the service itself says beside the sentence. */
const NO_HINT: ReadonlySet<string> = new Set([
  'origin.status',
  'origin.mailbox-not-found',
  'origin.rate-limited',
  'origin.timeout',
  'origin.cut-short',
]);

/** The hint of an error where an operation was called by hand. */
export function hintByHand({ code }: MailkeepError, hint: string | null): string | null {
  if (code === 'origin.unreachable')
    return 'Check the network, and the address in the configuration.';
  return NO_HINT.has(code) ? null : hint;
}

/**
 * The error envelope of a surface in the service's own words, as it came and as lines for a terminal. A token
 * that the service repeats is masked.
 */
export function answeredWords(
  { status, facts }: OriginRefusal,
  answer: OriginAnswer,
  secrets: Iterable<string>,
): { readonly json: object; readonly lines: string[] } {
  const { code, message, params, errors, correlationId } = answer;
  const details = {
    ...params,
    ...errors,
    ...(correlationId === null ? {} : { correlation_id: correlationId }),
  };
  const json = String(facts.operation).startsWith('platform.')
    ? { status, message, errors, correlation_id: correlationId }
    : { status, error: message, code, params };
  const mask = masking(secrets);
  return {
    json: masked(json, mask),
    lines: [
      ...(message === '' ? [] : [`The service says: ${terminalSafe(mask(message)).trim()}`]),
      ...Object.entries(details).map(
        ([name, value]) => `  ${terminalLine(mask(name))}: ${mask(visibleJson(value))}`,
      ),
    ],
  };
}

function masking(secrets: Iterable<string>): (text: string) => string {
  const all = [...secrets];
  return (text) => all.reduce((masked, secret) => masked.replaceAll(secret, '***'), text);
}

function masked(value: object, mask: (text: string) => string): object {
  const copy: unknown = JSON.parse(JSON.stringify(value), (_key, part: unknown) =>
    typeof part === 'string' ? mask(part) : part,
  );
  return typeof copy === 'object' && copy !== null ? copy : {};
}
