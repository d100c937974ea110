import { DEFAULT_REQUESTS_PER_MINUTE, MOST_REQUESTS_PER_MINUTE } from '../../../config/rate.ts';
import { type Forecast, forecast } from '../../../sync/plan/forecast.ts';
import { count, span } from '../../../wording/amounts.ts';
import type { Asker } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';
import { isLong } from '../../progress/forecast-text.ts';
import type { Reach } from './reach.ts';

/** Shown for comparison. */
const FASTER = [120, 300];

/** What a first sync of these mailboxes takes at a rate. */
export function firstSync(reach: readonly Reach[], requestsPerMinute: number): Forecast {
  return forecast({
    mailboxes: reach.length,
    folders: reach.flatMap(({ folders }) =>
      folders.map(({ messages }) => ({ messages, known: 0 })),
    ),
    sizes: { count: 0, bytes: 0 },
    requestsPerMinute,
  });
}

/** Asks how many requests a minute to make, where the usual rate makes the first sync long; else returns that rate. */
export async function chosenRate(
  { notices }: CommandContext,
  reach: readonly Reach[],
  asker: Asker | undefined,
): Promise<number> {
  const usual = DEFAULT_REQUESTS_PER_MINUTE;
  if (asker === undefined || !isLong(firstSync(reach, usual))) return usual;
  const times = [usual, ...FASTER].map(
    (rate) => `${count(rate)}: ${span(firstSync(reach, rate).hours * 3_600_000)}`,
  );
  notices.say(
    `Time of the first sync by requests a minute: ${times.join('; ')}. A service may block an address that asks too much for a while: if you do not know its limit, begin with ${usual}.`,
  );
  for (;;) {
    const typed = await asker.line('Requests a minute', String(usual));
    const rate = Number(typed);
    if (/^\d+$/.test(typed) && rate > 0 && rate <= MOST_REQUESTS_PER_MINUTE) return rate;
    notices.stream.write(
      `"${typed}" is not a whole number from 1 to ${MOST_REQUESTS_PER_MINUTE}.\n`,
    );
  }
}
