import type { VNode } from 'preact';

export interface BrickShape {
  readonly title: string;
  /** The class that fills it. */
  readonly class: string;
}

const LENGTH = 22;
const HIGH = 16;

/** A wall of bricks. Courses are laid by the browser: each brick is a picture in a line of text. */
export function Bricks({ bricks }: { readonly bricks: readonly BrickShape[] }): VNode {
  return (
    <p class="wall" aria-hidden="true">
      {bricks.map(({ title, ...brick }) => (
        <svg key={title} width={LENGTH} height={HIGH} aria-hidden="true" focusable="false">
          <title>{title}</title>
          <rect class={brick.class} x="1" y="1" width={LENGTH - 2} height={HIGH - 2} rx="2" />
          {brick.class === 'b-damaged' && <path class="b-cross" d={`M5 4 17 12M17 4 5 12`} />}
        </svg>
      ))}
    </p>
  );
}
