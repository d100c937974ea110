import type { StoredMessage, StoredSegment } from '../catalog/implied.ts';
import type { MessageId } from '../mail/words.ts';

/** Some of the stored messages, each as likely as any other; all of them where there are not more than wanted. */
export function pickSample(
  segments: readonly StoredSegment[],
  messagesIn: (segment: number, from: number) => readonly StoredMessage[],
  wanted: number,
  random: () => number,
): MessageId[] {
  const of = segments.reduce((sum, { messages }) => sum + messages, 0);
  const ranks = pickRanks(Math.min(wanted, of), of, random);
  const picked: MessageId[] = [];
  let before = 0;
  for (const { segment, messages } of segments) {
    const here = ranks.filter((rank) => rank >= before && rank < before + messages);
    if (here.length > 0) {
      const stored = messagesIn(segment, 0);
      picked.push(...here.flatMap((rank) => stored[rank - before]?.id ?? []));
    }
    before += messages;
  }
  return picked;
}

/** Distinct numbers below `of`, sorted (Floyd's way: as many draws as numbers). */
function pickRanks(wanted: number, of: number, random: () => number): number[] {
  const picked = new Set<number>();
  for (let last = of - wanted; last < of; last += 1) {
    const drawn = Math.floor(random() * (last + 1));
    picked.add(picked.has(drawn) ? last : drawn);
  }
  return [...picked].sort((a, b) => a - b);
}
