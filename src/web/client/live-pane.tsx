import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type ConversationProps, Thread, unfoldedAtFirst } from '../pages/conversation.tsx';
import {
  MAX_UNFOLDED,
  type MessageContent,
  messageAddress,
  type NoMessage,
} from '../pages/message-props.ts';
import { ask, useViewer } from './viewer.ts';

/** Code outside the first script: loaded with the first message, page of files, menu or dialog. */
export { FilesPage } from '../pages/files-page.tsx';
export { MessagePage, MessagePane, NoMessagePage } from '../pages/message-pane.tsx';
export * from './extras.tsx';

/** A conversation whose messages unfold in place, without moving the content above. */
export function LiveConversation({ message }: ConversationProps) {
  const viewer = useViewer();
  const [open, setOpen] = useState(() => unfoldedAtFirst(message));
  const asked = useRef(new Set<string>());
  const { place, conversation, id: own } = message;
  // Scrolls to the opened message, past the earlier ones.
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
  // Unfolds other matching messages one by one, so that the opened message need not wait.
  useEffect(() => {
    let isShown = true;
    const unfoldFound = async (): Promise<void> => {
      for (const id of conversation.found.slice(0, MAX_UNFOLDED))
        if (isShown && !open.has(id)) await unfold(id);
    };
    // Messages that cannot be loaded stay folded; unfolding one by hand shows the reason.
    unfoldFound().catch(() => undefined);
    return () => {
      isShown = false;
    };
  }, [own]);
  const toggle = (id: string): void => {
    if (!open.has(id)) {
      unfold(id).then(
        (isOpen) => isOpen && focusSoon(() => document.getElementById(`m-${id.slice(0, 16)}`)),
        // The message's own page shows the reason: no connection, no session, no such message.
        () => viewer.go(messageAddress(place, id, 'thread')),
      );
      return;
    }
    setOpen((known) => new Map([...known].filter(([one]) => one !== id)));
    focusSoon(() => document.querySelector<HTMLElement>(`[data-fold="${id}"]`));
  };
  return <Thread message={message} open={open} toggle={toggle} />;
}

/** After drawing, since the element that had the focus is gone by then. */
function focusSoon(find: () => HTMLElement | null): void {
  requestAnimationFrame(() => find()?.focus({ preventScroll: true }));
}
