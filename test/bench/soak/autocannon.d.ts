/** What the soak uses of autocannon, which brings no types. */
declare module 'autocannon' {
  export interface SoakRequest {
    method?: string;
    path?: string;
    headers?: Record<string, string>;
    body?: string;
    /** Called before every sending; the object is one connection's own. */
    setupRequest?: (request: SoakRequest, context: object) => SoakRequest;
    onResponse?: (status: number, body: string, context: object) => void;
  }

  export interface Result {
    readonly duration: number;
    readonly errors: number;
    readonly timeouts: number;
    readonly non2xx: number;
    readonly requests: { readonly total: number; readonly average: number };
    readonly latency: {
      readonly p50: number;
      readonly p99: number;
      readonly max: number;
    };
    readonly throughput: { readonly average: number };
    readonly statusCodeStats?: Readonly<Record<string, { readonly count: number }>>;
  }

  export default function autocannon(options: {
    url: string;
    connections: number;
    /** Seconds. */
    duration: number;
    /** Requests a second over all connections. */
    overallRate?: number;
    timeout?: number;
    requests: SoakRequest[];
  }): PromiseLike<Result>;
}
