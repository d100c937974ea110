import type { VNode } from 'preact';
import { count, counted } from '../../wording/amounts.ts';
import type { MailList, NothingFound, OtherQuery } from '../reading/mail-list.ts';
import { findTerm, withTerm } from '../reading/query-terms.ts';
import { pageAddress } from '../reading/query-text.ts';
import { Command } from './frame.tsx';
import { Icon } from './icons.tsx';
import { Row } from './mail-row.tsx';
import type { MailContent } from './page.ts';

export interface ListProps extends Pick<MailContent, 'sort' | 'after' | 'pending'> {
  readonly query: string;
  readonly list: MailList;
  /** The id of the message that is open next to the list. */
  readonly chosen: string | undefined;
}

/** What a query finds, in pages. */
export function ListPages({ list, query, sort, after, chosen, pending }: ListProps): VNode {
  const other = sort === 'newest' ? 'oldest' : 'newest';
  const sortParameter = sort === 'newest' ? undefined : sort;
  const pageOf = (from: string): string =>
    pageAddress('/mail', { q: query, sort: sortParameter, after: from });
  return (
    <>
      <div class="listhead">
        <Found all={list.all} ended={list.ended} query={query} />
        <span class="spacer" />
        <a class="btn quiet" href={pageAddress('/export', { q: query })} data-act="export">
          Export
        </a>
        <a
          class="btn quiet"
          href={pageAddress('/mail', { q: query, sort: other === 'newest' ? undefined : other })}
        >
          {sort === 'newest' ? 'Newest first' : 'Oldest first'}
        </a>
      </div>
      <Pending messages={pending} />
      {list.hits.length === 0 ? (
        <Nothing query={query} nothing={list.nothing} />
      ) : (
        <ol class="rows">
          {list.hits.map((hit) => (
            <Row
              key={hit.line.id}
              hit={hit}
              chosen={chosen === hit.line.id}
              href={pageAddress('/mail', {
                q: query,
                sort: sortParameter,
                after,
                m: hit.line.id.slice(0, 16),
              })}
            />
          ))}
        </ol>
      )}
      {(list.before != null || list.next !== null) && (
        <nav class="pages" aria-label="Pages">
          {list.before != null && (
            <>
              {list.before !== '' && (
                <a class="btn" href={pageOf('')}>
                  {sort === 'newest' ? 'To the newest' : 'To the oldest'}
                </a>
              )}
              <a class="btn" rel="prev" href={pageOf(list.before)}>
                {sort === 'newest' ? 'Newer' : 'Older'}
              </a>
            </>
          )}
          <span class="spacer" />
          {list.next !== null && (
            <a class="btn" rel="next" href={pageOf(list.next.slice(0, 16))}>
              {sort === 'newest' ? 'Older' : 'Newer'}
            </a>
          )}
        </nav>
      )}
    </>
  );
}

/** How many messages a query finds, and as a link how many of them were deleted. */
export function Found({
  all,
  ended,
  query,
}: Pick<MailList, 'all' | 'ended'> & { readonly query: string }): VNode {
  if (all === null) return <span aria-busy="true">…</span>;
  return (
    <span>
      {!all.complete && 'more than '}
      <b>{count(all.count)}</b> {all.count === 1 ? 'message' : 'messages'}
      {ended !== null && ended > 0 && (
        <>
          ,{' '}
          {findTerm(query, 'is:deleted') === undefined ? (
            <a class="link" href={pageAddress('/mail', { q: withTerm(query, 'is:deleted') })}>
              <b>{count(ended)}</b> deleted
            </a>
          ) : (
            <>
              <b>{count(ended)}</b> deleted
            </>
          )}
        </>
      )}
    </span>
  );
}

/** Says how many messages their words do not find yet. */
export function Pending({ messages }: { readonly messages: number }): VNode | null {
  if (messages === 0) return null;
  return (
    <p class="strip warn">
      <Icon name="alert" />
      <span>
        <strong>{counted(messages, 'message')} cannot be found by words yet.</strong> Folder, flags,
        date and size already find them.
      </span>
    </p>
  );
}

/** Says that a query finds nothing, and which one would find something. */
export function Nothing({
  query,
  nothing,
}: {
  readonly query: string;
  readonly nothing?: NothingFound | undefined;
}): VNode {
  const { without, beginning } = nothing ?? {};
  return (
    <div class="nothing">
      <Icon name="search" />
      <h2>{query.trim() === '' ? 'No mail yet' : 'Nothing found'}</h2>
      {nothing?.notes.map((note) => (
        <p key={note}>
          <bdi>{note}</bdi>
        </p>
      ))}
      {without != null && (
        <p>
          Without <bdi class="mono">{without.term}</bdi> there would be <FoundBy other={without} />.
        </p>
      )}
      {beginning != null && (
        <p>
          With <bdi class="mono">{beginning.term}</bdi> there would be <FoundBy other={beginning} />
          .
        </p>
      )}
      {query.trim() === '' ? (
        <>
          <p>The first "mailkeep sync" brings the newest mail first. Without a configuration:</p>
          <Command>mailkeep init</Command>
        </>
      ) : (
        <p>
          <a class="link" href="/mail">
            All mail
          </a>
        </p>
      )}
    </div>
  );
}

/** Leads to what another query finds, and says how much that is. */
function FoundBy({ other: { query, found } }: { readonly other: OtherQuery }): VNode {
  return (
    <a class="link" href={pageAddress('/mail', { q: query })}>
      {!found.complete && 'more than '}
      {counted(found.count, 'message')}
    </a>
  );
}
