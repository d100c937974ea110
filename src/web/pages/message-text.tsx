import type { VNode } from 'preact';
import { counted } from '../../wording/amounts.ts';
import type { TextPiece } from '../reading/message-shapes.ts';
import { Icon } from './icons.tsx';
import { Marked } from './marked.tsx';

/** Quoted lines that are not worth folding. */
const SHORT_QUOTE = 3;

/** The text of a message; long quotes are folded where it is read as mail. */
export function Text({
  pieces,
  folded,
}: {
  readonly pieces: readonly TextPiece[];
  readonly folded: boolean;
}): VNode {
  return (
    <div class={folded ? 'text' : 'text plain-text'} dir="auto">
      {pieces.map(({ kind, lines, matches }, i) => {
        const text = <Marked text={lines.join('\n')} matches={matches} />;
        if (kind === 'quote' && folded && lines.length > SHORT_QUOTE)
          return (
            <details key={i} class="quoted">
              <summary>
                <Icon name="down" />
                {counted(lines.length, 'quoted line')}
                {matches.length > 0 && `, ${counted(matches.length, 'match', 'matches')}`}
              </summary>
              <div class={kind}>{text}</div>
            </details>
          );
        return (
          <div key={i} class={kind === 'text' ? undefined : kind}>
            {text}
          </div>
        );
      })}
    </div>
  );
}
