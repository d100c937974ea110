import type { VNode } from 'preact';
import { count, counted } from '../../wording/amounts.ts';
import type { ListSort, MailList } from '../reading/mail-list.ts';
import { asOfWord, hasWord, pageAddress, toggled } from '../reading/query-text.ts';
import type { QueryProblem } from '../reading/understood-query.ts';
import { Icon } from './icons.tsx';
import { Row } from './mail-row.tsx';
import { MessagePane } from './message-pane.tsx';
import type { MessagePaneProps } from './message-props.ts';
import { Shell, type ShellProps } from './shell.tsx';

export interface MailPageProps extends Omit<ShellProps, 'children' | 'here' | 'title'> {
  /** Null where the query cannot be understood. */
  readonly list: MailList | null;
  readonly sort: ListSort;
  /** The last message of the page before, as it stands in the address. */
  readonly after: string | undefined;
  /** The message that is read next to the list. */
  readonly message: MessagePaneProps | null;
  /** Messages that are not found by their words yet. */
  readonly pending: number;
}

/** Query, list and reading pane. */
export function MailPage(props: MailPageProps): VNode {
  const { query, problem, list, message } = props;
  const title = query.trim() === '' ? 'All mail' : query;
  return (
    <Shell {...props} here="mail" title={title} reading={message !== null}>
      {message === null && <h1 class="vh">{title}</h1>}
      <Chips query={query} />
      <div class="split">
        <section class="listcol" aria-label="Results">
          {problem !== null && <Problem query={query} problem={problem} />}
          {list !== null && <List {...props} list={list} />}
        </section>
        <section class="read" aria-label="Message">
          {message === null ? (
            <p class="empty">Choose a message to read it here.</p>
          ) : (
            <MessagePane {...message} />
          )}
        </section>
      </div>
    </Shell>
  );
}

const CHIPS = [
  ['has:attachment', 'Has attachment'],
  ['is:unread', 'Unread'],
  ['is:starred', 'Starred'],
  ['-is:deleted', 'Still at the service'],
  ['is:deleted', 'Kept only here'],
] as const;

/** Filters that write the query: each is a link to the query with it, or without it. */
function Chips({ query }: { readonly query: string }): VNode {
  return (
    <nav class="chips" aria-label="Filters">
      {CHIPS.map(([word, label]) => {
        const on = hasWord(query, word);
        return (
          <a
            key={word}
            class={on ? 'chip on' : 'chip'}
            href={pageAddress('/mail', { q: toggled(query, word) })}
          >
            {label}
            {on && (
              <>
                <Icon name="cross" />
                <span class="vh">(remove)</span>
              </>
            )}
          </a>
        );
      })}
      {asOfWord(query) !== '' && (
        <a class="chip past" href={pageAddress('/mail', { q: toggled(query, asOfWord(query)) })}>
          Back to now
          <Icon name="cross" />
        </a>
      )}
    </nav>
  );
}

/** An error of the query: the wrong stretch underlined, the sentence, and a way out. */
function Problem({
  query,
  problem,
}: {
  readonly query: string;
  readonly problem: QueryProblem;
}): VNode {
  const { message, hint, stretch, suggestion } = problem;
  return (
    <div class="strip bad" id="problem" role="alert">
      <Icon name="alert" />
      <div>
        {stretch !== null && (
          <p class="mono wrong-query">
            <bdi>{query.slice(0, stretch.start)}</bdi>
            <u>{query.slice(stretch.start, stretch.end)}</u>
            <bdi>{query.slice(stretch.end)}</bdi>
          </p>
        )}
        <p>
          <strong>
            <bdi>{message}</bdi>
          </strong>
        </p>
        {suggestion !== null && (
          <p>
            Did you mean{' '}
            <a class="link" href={pageAddress('/mail', { q: suggestion.query })}>
              <bdi>{suggestion.text}</bdi>
            </a>
            ?
          </p>
        )}
        {hint !== null && suggestion === null && (
          <p>
            <bdi>{hint}</bdi>
          </p>
        )}
      </div>
    </div>
  );
}

function List({
  list,
  query,
  sort,
  after,
  message,
  pending,
}: MailPageProps & { readonly list: MailList }): VNode {
  const other = sort === 'newest' ? 'oldest' : 'newest';
  const sortParameter = sort === 'newest' ? undefined : sort;
  return (
    <>
      <div class="listhead">
        <span>
          {!list.all.complete && 'more than '}
          <b>{count(list.all.count)}</b> {list.all.count === 1 ? 'message' : 'messages'}
          {list.ended !== null && list.ended > 0 && (
            <>
              , <b>{count(list.ended)}</b> deleted
            </>
          )}
        </span>
        <span class="spacer" />
        <a
          class="btn quiet"
          href={pageAddress('/mail', { q: query, sort: other === 'newest' ? undefined : other })}
        >
          {sort === 'newest' ? 'Newest first' : 'Oldest first'}
        </a>
      </div>
      {pending > 0 && (
        <p class="strip warn">
          <Icon name="alert" />
          <span>
            <strong>{counted(pending, 'message')} cannot be found by words yet.</strong> Folder,
            flags, date and size already find them.
          </span>
        </p>
      )}
      {list.hits.length === 0 ? (
        <div class="nothing">
          <Icon name="search" />
          <h2>Nothing found</h2>
          {query.trim() !== '' && (
            <p>
              <a class="link" href="/mail">
                All mail
              </a>
            </p>
          )}
        </div>
      ) : (
        <ol class="rows">
          {list.hits.map((hit) => (
            <Row
              key={hit.line.id}
              hit={hit}
              chosen={message?.id === hit.line.id}
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
      {(after !== undefined || list.next !== null) && (
        <nav class="pages" aria-label="Pages">
          {after !== undefined && (
            <a class="btn" href={pageAddress('/mail', { q: query, sort: sortParameter })}>
              {sort === 'newest' ? 'To the newest' : 'To the oldest'}
            </a>
          )}
          <span class="spacer" />
          {list.next !== null && (
            <a
              class="btn"
              rel="next"
              href={pageAddress('/mail', {
                q: query,
                sort: sortParameter,
                after: list.next.slice(0, 16),
              })}
            >
              {sort === 'newest' ? 'Older' : 'Newer'}
            </a>
          )}
        </nav>
      )}
    </>
  );
}
