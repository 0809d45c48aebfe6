// `npm run dev -- --demo`: a small shop with visitors, failures and a history.
import { makeDemoAccount } from './account.ts'
import { sendTraffic, untilServed } from './traffic.ts'
import { startUpstreams } from './upstreams.ts'

type Edge = { httpsPort: number; tcpPort: number }
type Options = { baseUrl: string; token: string; edge: Edge | undefined }

/** Without an edge there is no traffic, but everything else. Resolves to a function that stops it. */
export async function startDemo({ baseUrl, token, edge }: Options): Promise<() => void> {
  const { addresses, stop } = await startUpstreams()
  const tcpPort = edge?.tcpPort ?? 20_001
  const changeMore = await makeDemoAccount({ baseUrl, token, upstreams: addresses, tcpPort })
  if (edge) {
    await untilServed(edge)
    void sendTraffic(edge)
    // The partner's address must be reported before the change that shuts it out.
    setTimeout(() => changeMore().catch((error) => console.error(`demo: ${error.message}`)), 10_000).unref()
  } else await changeMore()
  return stop
}
