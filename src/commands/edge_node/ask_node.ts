import type { EdgeConfig } from '../../config/config.ts'

type StatusListen = Pick<EdgeConfig, 'GATEHOUSE_EDGE_STATUS_LISTEN'>

/** The reply of this machine's node at its status port. If none responds, prints `advice` and resolves to undefined. */
export async function askNode(
  { GATEHOUSE_EDGE_STATUS_LISTEN: { host, port } }: StatusListen,
  path: string,
  { timeoutMs, advice, ...init }: { timeoutMs: number; advice: string; method?: string; body?: string },
): Promise<unknown> {
  const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`
  try {
    const response = await fetch(`http://${authority}${path}`, { ...init, signal: AbortSignal.timeout(timeoutMs) })
    return await response.json()
  } catch {
    console.error(`gatehouse: no edge node responds at ${authority}. ${advice}`)
    return undefined
  }
}
