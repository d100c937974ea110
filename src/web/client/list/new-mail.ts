import { useEffect, useRef, useState } from 'preact/hooks';
import type { NewMail, RowSource } from './row-source.ts';

/**
 * Returns what came since a list was made; null where nothing has.
 *
 * @param newest the newest message that the list was made with, null where it was empty; undefined where it is to be
 *   found out
 * @param news how often the server has reported something new
 */
export function useNewMail(
  source: RowSource,
  newest: string | null | undefined,
  news: number,
): NewMail | null {
  const [fresh, setFresh] = useState<NewMail | null>(null);
  const known = useRef<string | null | undefined>(newest);
  const made = useRef(news);
  useEffect(() => {
    setFresh(null);
    known.current = newest;
    made.current = news;
    if (newest !== undefined) return undefined;
    const asking = new AbortController();
    void source.newest(asking.signal).then((found) => {
      if (!asking.signal.aborted) known.current = found;
    });
    return () => asking.abort();
    // With each list once, whatever is reported meanwhile.
  }, [source]);
  useEffect(() => {
    const { current } = known;
    if (news === made.current || current === undefined) return undefined;
    const asking = new AbortController();
    void source.newerThan(current, asking.signal).then((found) => {
      if (found !== undefined && found.count > 0 && !asking.signal.aborted) setFresh(found);
    });
    return () => asking.abort();
  }, [source, news]);
  return fresh;
}
