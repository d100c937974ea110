import type { VNode } from 'preact';
import { FirstSyncNote, NoMailbox, SilentStrip } from './archive-state.tsx';
import type { Page, PageOf } from './page.ts';
import { titleOf, useParts } from './parts.ts';
import { Shell } from './shell.tsx';

/** Query, list and reading pane. */
function MailPage({ page }: { readonly page: PageOf<'mail'> }): VNode {
  const { frame, list, message, sort, after, pending } = page;
  const { query, problem } = frame;
  const { List, Chips, Problem, Message } = useParts();
  const { state, tree } = frame;
  const isAll = query.trim() === '';
  const isEmpty = isAll && tree.mailboxes.length === 0;
  const isFirst = state.first !== null && isAll;
  const isShown = !isEmpty && !(isFirst && state.first.messages === 0);
  return (
    <Shell frame={frame} here="mail">
      {message === null && <h1 class="vh">{titleOf(query)}</h1>}
      <Chips frame={frame} />
      <div class="split">
        <section class={problem === null ? 'listcol' : 'listcol stale'} aria-label="Results">
          {problem && Problem && <Problem query={query} problem={problem} path="/mail" />}
          <SilentStrip state={state} />
          {isFirst && <FirstSyncNote first={state.first} />}
          {isEmpty && !isFirst && <NoMailbox />}
          {list !== null && isShown && (
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

/** Shows a page of the archive. */
export function PageView({ page }: { readonly page: Page }): VNode {
  const { Later } = useParts();
  return page.kind === 'mail' ? <MailPage page={page} /> : <Later page={page} />;
}
