/** What happens at a registry, for metrics. None of it holds anything of an archive. */
type RegistryEvent =
  | {
      readonly event: 'transaction';
      /** The name of our transaction, such as `commit`. */
      readonly transaction: string;
      readonly ms: number;
      /** The code of why it failed; null where it did not. */
      readonly failure: string | null;
    }
  /** By which condition, as `FencedBy` names them. */
  | { readonly event: 'refused'; readonly by: string }
  /** Archives were claimed, or the outcome of a request was settled by another epoch. */
  | { readonly event: 'epochs-raised'; readonly archives: number };

/** Must only take note. */
export type RegistryObserver = (event: RegistryEvent) => void;
