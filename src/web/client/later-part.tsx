import type { ComponentType, VNode } from 'preact';
import { useEffect, useReducer } from 'preact/hooks';

/**
 * Returns a part of a page whose code is loaded when it is first shown; nothing stands in its place until then. Where it
 * cannot be loaded, the next time it is shown tries again.
 */
export function laterPart<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
): (props: Props) => VNode | null {
  let Loaded: ComponentType<Props> | undefined;
  return function Later(props) {
    const [, arrived] = useReducer<number, undefined>((count) => count + 1, 0);
    useEffect(() => {
      if (Loaded !== undefined) return;
      load().then(
        (found) => {
          Loaded = found;
          arrived(undefined);
        },
        // Without a connection, the next thing that is asked for says so.
        () => undefined,
      );
    }, []);
    return Loaded === undefined ? null : <Loaded {...props} />;
  };
}
