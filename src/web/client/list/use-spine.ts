import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ListSort } from '../../reading/list-place.ts';
import type { ListSpine } from '../../reading/spine.ts';
import type { RowSource } from './row-source.ts';
import { type SpineScale, spineScale } from './spine-scale.ts';

/** Without another list for so long, its spine is asked for: it may take the server longer than the rows of the next key. */
const REST_MS = 150;

/** Returns the spine of a list; the one of the list before until it is there, and null where there is none. */
export function useSpine(source: RowSource, sort: ListSort): SpineScale | null {
  const [spine, setSpine] = useState<ListSpine | null>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    const asking = new AbortController();
    const ask = async (): Promise<void> => {
      const found = await source.spine(asking.signal);
      if (found !== undefined && !asking.signal.aborted) setSpine(found);
    };
    const rest = window.setTimeout(() => void ask(), isFirst.current ? 0 : REST_MS);
    isFirst.current = false;
    return () => {
      clearTimeout(rest);
      asking.abort();
    };
  }, [source]);
  return useMemo(() => (spine === null ? null : spineScale(spine, sort)), [spine, sort]);
}
