import type { RefObject, VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { Span } from '../../search/ast.ts';
import { inkOf, type Tint } from './ink.ts';

/** What the field's text looks like, drawn behind it: the field itself stays a plain one. */
export function QueryInk({
  text,
  wrong,
  ghost,
  field,
}: {
  readonly text: string;
  readonly wrong: Span | null;
  /** What follows the caret if the best completion is taken. */
  readonly ghost: string;
  readonly field: RefObject<HTMLInputElement | null>;
}): VNode {
  const paper = useRef<HTMLDivElement>(null);
  const follow = (): void => {
    const input = field.current;
    // Where there is no text, no position is asked for: the browser would lay out the page that the script has just made.
    const shift = input?.value ? -input.scrollLeft : 0;
    if (paper.current !== null) paper.current.style.transform = `translateX(${shift}px)`;
  };
  // Only with what is drawn here: each time, the browser lays out the page at once, also the rows that a key has found.
  useLayoutEffect(follow, [text, wrong, ghost]);
  useEffect(() => {
    const input = field.current;
    input?.addEventListener('scroll', follow, { passive: true });
    return () => input?.removeEventListener('scroll', follow);
  }, [field]);
  return (
    <div class="ink" aria-hidden="true">
      <div ref={paper} class="paper">
        <span>
          {inkOf(text, wrong).map(({ start, end, tint, wrong: isWrong }) => (
            <span key={start} class={classOf(tint, isWrong)}>
              {text.slice(start, end)}
            </span>
          ))}
          {ghost !== '' && <span class="ghost">{ghost}</span>}
        </span>
      </div>
    </div>
  );
}

function classOf(tint: Tint, isWrong: boolean): string | undefined {
  const tinted = tint === 'text' ? '' : tint;
  return isWrong ? `wave ${tinted}`.trim() : tinted || undefined;
}
