/** A row of `/api/complete`: one way to go on at the caret. */
export interface Completion {
  /** What replaces the query from `from` to `to`, in UTF-16 code units. */
  readonly insert: string;
  readonly from: number;
  readonly to: number;
  /** What it is called. Strangers wrote names and addresses. */
  readonly label: string;
  /** What is shown next to it, such as an address. */
  readonly detail: string;
  /** Messages that it finds by itself; null where that is not known at once. */
  readonly count: number | null;
}
