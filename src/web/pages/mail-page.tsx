import type { VNode } from 'preact';
import { Icon } from './icons.tsx';
import type { PageOf } from './page.ts';
import { titleOf } from './page-title.ts';
import { useParts } from './parts.ts';
import { Shell } from './shell.tsx';

/** Query, list and reading pane. */
export function MailPage({ page }: { readonly page: PageOf<'mail'> }): VNode {
  const { frame, list, message, sort, after, pending } = page;
  const { query, problem } = frame;
  const { List, Chips, Problem, Message } = useParts();
  const isEmpty = frame.tree.mailboxes.length === 0 && query.trim() === '';
  return (
    <Shell frame={frame} here="mail">
      {message === null && <h1 class="vh">{titleOf(query)}</h1>}
      <Chips frame={frame} />
      <div class="split">
        <section class={problem === null ? 'listcol' : 'listcol stale'} aria-label="Results">
          {problem !== null && <Problem query={query} problem={problem} path="/mail" />}
          {isEmpty && <NoMailbox />}
          {list !== null && !isEmpty && (
            <List {...{ list, query, sort, after, pending }} chosen={message?.id} />
          )}
        </section>
        <section class="read" id="message" tabindex={-1} aria-label="Message">
          {message === null ? (
            <p class="empty">Choose a message to read it here.</p>
          ) : (
            <Message {...message} />
          )}
        </section>
      </div>
    </Shell>
  );
}

/** An archive that nothing was fetched into yet. */
function NoMailbox(): VNode {
  return (
    <div class="nothing">
      <Icon name="mail" />
      <h2>No mailbox yet</h2>
      <p>
        <code class="mono">mailkeep init</code> sets one up. The first sync fetches the newest mail
        first, and what is here can be read meanwhile.
      </p>
    </div>
  );
}
