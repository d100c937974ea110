import type { VNode } from 'preact';

/** A text in which what was found is marked: it comes as text with places, and never as HTML. */
export function Marked({
  text,
  matches,
}: {
  readonly text: string;
  readonly matches: readonly { readonly start: number; readonly end: number }[];
}): VNode {
  const parts: (string | VNode)[] = [];
  let at = 0;
  for (const { start, end } of matches) {
    parts.push(text.slice(at, start), <mark key={start}>{text.slice(start, end)}</mark>);
    at = end;
  }
  return (
    <bdi>
      {parts}
      {text.slice(at)}
    </bdi>
  );
}
