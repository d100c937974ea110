import type { VNode } from 'preact';
import { plainLine } from '../../mail/terminal-safe.ts';
import { count, span } from '../../wording/amounts.ts';
import type { Hop } from '../reading/received-hops.ts';
import { Moment } from './moment.tsx';
import { useParts } from './parts.ts';

/** Header fields on one page: a header of a mebibyte can have a hundred thousand. */
const MOST_FIELDS = 1_000;

/** The way of a message, and its header fields decoded, each to be copied. */
export function Headers({
  fields,
  hops,
}: {
  readonly fields: readonly { readonly name: string; readonly value: string }[];
  readonly hops: readonly Hop[];
}): VNode {
  const { Copy } = useParts();
  return (
    <>
      {hops.length > 0 && <Hops hops={hops} />}
      <table class="headers">
        <tbody>
          {fields.slice(0, MOST_FIELDS).map(({ name, value }, i) => (
            <tr key={i}>
              <th scope="row">
                <bdi>{name}</bdi>
              </th>
              <td>
                <bdi>{plainLine(value)}</bdi>
              </td>
              <td class="act">
                <Copy text={value} label={`Copy ${name}`} icon="copy" isBrief />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {fields.length > MOST_FIELDS && (
        <p class="small">
          {count(fields.length - MOST_FIELDS)} more fields are left out; the source has all of them.
        </p>
      )}
    </>
  );
}

function Hops({ hops }: { readonly hops: readonly Hop[] }): VNode {
  return (
    <section class="hops" aria-label="The way of the message">
      <h2>
        The way it took <small>by its Received lines, which any server may have forged</small>
      </h2>
      <ol class="time-line">
        {hops.map(({ from, by, with: how, time, delay }, i) => (
          <li key={i}>
            <span class="at">{time === null ? 'no time' : <Moment ms={time} />}</span>
            <span class="dot" aria-hidden="true" />
            <div>
              <p>
                <strong>
                  <bdi>{by || 'a server without a name'}</bdi>
                </strong>{' '}
                {how !== '' && (
                  <span class="muted">
                    with <bdi>{how}</bdi>
                  </span>
                )}
                {delay !== null && <span class="tag">{delayText(delay)}</span>}
              </p>
              {from !== '' && (
                <p class="small">
                  from <bdi>{from}</bdi>
                </p>
              )}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** Clocks of two servers differ: a hop can seem to have come before the one it followed. */
function delayText(ms: number): string {
  if (ms < 0) return `clock ${span(-ms)} behind`;
  return ms < 1_000 ? 'at once' : `after ${span(ms)}`;
}
