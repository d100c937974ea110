import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ListSort } from '../../reading/list-place.ts';
import type { ListSpine } from '../../reading/spine.ts';
import type { RowSource } from './row-source.ts';
import { type SpineScale, spineScale } from './spine-scale.ts';

/** Returns the spine of a list; the one of the list before until it is there, and null where there is none. */
export function useSpine(source: RowSource, sort: ListSort): SpineScale | null {
  const [spine, setSpine] = useState<ListSpine | null>(null);
  useEffect(() => {
    const asking = new AbortController();
    void source.spine(asking.signal).then((found) => {
      if (found !== undefined && !asking.signal.aborted) setSpine(found);
    });
    return () => asking.abort();
  }, [source]);
  return useMemo(() => (spine === null ? null : spineScale(spine, sort)), [spine, sort]);
}
