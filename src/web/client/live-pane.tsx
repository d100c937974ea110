import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type ConversationProps, Thread, unfoldedAtFirst } from '../pages/conversation.tsx';
import {
  type MessageContent,
  MOST_UNFOLDED,
  messageAddress,
  type NoMessage,
} from '../pages/message-props.ts';
import { ask, useViewer } from './viewer.ts';

/** The code outside the first script: it is loaded with the first message, page of files, menu or dialog. */
export { FilesPage } from '../pages/files-page.tsx';
export { MessagePage, MessagePane, NoMessagePage } from '../pages/message-pane.tsx';
export { MessageViews } from '../pages/message-views.tsx';
export * from './extras.tsx';

/** A conversation whose messages unfold in their place: what stands above stays where it is. */
export function LiveConversation({ message }: ConversationProps) {
  const viewer = useViewer();
  const [open, setOpen] = useState(() => unfoldedAtFirst(message));
  const asked = useRef(new Set<string>());
  const { place, conversation, id: own } = message;
  // What was opened stands where it is read, and not below what came before it.
  useLayoutEffect(() => {
    const opened = document.getElementById(`m-${own.slice(0, 16)}`);
    if (opened?.previousElementSibling != null) opened.scrollIntoView({ block: 'start' });
  }, [own]);
  const unfold = async (id: string): Promise<boolean> => {
    if (asked.current.has(id)) return false;
    asked.current.add(id);
    try {
      const parameters = new URLSearchParams({ m: id, q: place.query, page: place.page });
      const found = await ask<MessageContent | NoMessage>(`/api/message?${parameters}`);
      if (found.kind !== 'message') throw new RangeError('no such message');
      setOpen((known) => new Map(known).set(id, found));
      return true;
    } finally {
      asked.current.delete(id);
    }
  };
  // What the query finds besides, one after the other: the message that was opened does not wait for it.
  useEffect(() => {
    let isShown = true;
    const unfoldFound = async (): Promise<void> => {
      for (const id of conversation.found.slice(0, MOST_UNFOLDED))
        if (isShown && !open.has(id)) await unfold(id);
    };
    // Those that cannot be had stay folded; who unfolds one is shown why.
    unfoldFound().catch(() => undefined);
    return () => {
      isShown = false;
    };
  }, [own]);
  const toggle = (id: string): void => {
    if (!open.has(id)) {
      unfold(id).then(
        (isOpen) => isOpen && focusSoon(() => document.getElementById(`m-${id.slice(0, 16)}`)),
        // The way to its own page says what is wrong: no connection, no session, no such message.
        () => viewer.go(messageAddress(place, id, 'thread')),
      );
      return;
    }
    setOpen((known) => new Map([...known].filter(([one]) => one !== id)));
    focusSoon(() => document.querySelector<HTMLElement>(`[data-fold="${id}"]`));
  };
  return <Thread message={message} open={open} toggle={toggle} />;
}

/** Once it is drawn: the element that had the focus is gone by then. */
function focusSoon(find: () => HTMLElement | null): void {
  requestAnimationFrame(() => find()?.focus({ preventScroll: true }));
}
