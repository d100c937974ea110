import type { ComponentType, VNode } from 'preact';
import { useEffect, useReducer } from 'preact/hooks';

type Extras = typeof import('./extras.ts');

let loaded: Extras | undefined;

/** Loads what hangs over a page. Rejects where the server cannot be reached, or has another version by now. */
export async function loadExtras(): Promise<void> {
  loaded ??= await import('./extras.ts');
}

/**
 * Returns one of the extras. Unless they are loaded, they are when it is first shown, and nothing stands in its place until
 * then; where they cannot be loaded, the next time it is shown tries again.
 */
export function laterPart<Props extends object>(
  pick: (extras: Extras) => ComponentType<Props>,
): (props: Props) => VNode | null {
  return function Later(props) {
    const [, arrived] = useReducer<number, undefined>((count) => count + 1, 0);
    useEffect(() => {
      if (loaded === undefined)
        loadExtras().then(
          () => arrived(undefined),
          // Without a connection, the next thing that is asked for says so.
          () => undefined,
        );
    }, []);
    if (loaded === undefined) return null;
    const Part = pick(loaded);
    return <Part {...props} />;
  };
}
