// The visitors of the demonstration's shop. Each has its own loopback address, which Linux provides without setup.
import { request } from 'node:https'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export const host = 'shop.example'
export const [office, partner, abuser, scraper] = ['127.0.0.2', '127.0.0.40', '127.0.0.66', '127.0.0.77']

type Visit = { from: string; path: string; method?: string; weight: number }
const visitor = () => `127.0.1.${1 + Math.floor(Math.random() * 60)}`
const visits: readonly (() => Visit)[] = [
  () => ({ from: visitor(), path: '/', weight: 12 }),
  () => ({ from: visitor(), path: '/tents/alpine-2', weight: 10 }),
  () => ({ from: visitor(), path: '/boots?size=42', weight: 8 }),
  () => ({ from: visitor(), path: '/search/?q=stove', weight: 6 }),
  () => ({ from: visitor(), path: '/checkout/pay', method: 'POST', weight: 1 }),
  () => ({ from: office, path: '/admin/orders', weight: 2 }),
  () => ({ from: partner, path: '/api/v2/stock', weight: 6 }),
  () => ({ from: visitor(), path: '/api/v2/stock', weight: 1 }),
  () => ({ from: abuser, path: '/login', method: 'POST', weight: 2 }),
  () => ({ from: abuser, path: '/.env', weight: 1 }),
  () => ({ from: scraper, path: '/search/?q=a', weight: 3 }),
]

const pick = (): Visit => {
  const all = visits.map((make) => make())
  let left = Math.random() * all.reduce((sum, { weight }) => sum + weight, 0)
  for (const visit of all) {
    left -= visit.weight
    if (left <= 0) return visit
  }
  return visits[0]?.() as Visit
}

/** Resolves to the status, or to undefined without one: some visits fail on purpose. */
const visit = ({ from, path, method = 'GET' }: Omit<Visit, 'weight'>, port: number): Promise<number | undefined> =>
  new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, servername: host, localAddress: from, method, path, timeout: 5_000 }
    // The demonstration's certificate is not signed by any authority.
    const sent = request({ ...options, headers: { host }, rejectUnauthorized: false, agent: false }, (response) => {
      response.resume().on('close', () => resolve(response.statusCode))
    })
    sent.on('error', () => resolve(undefined)).on('timeout', () => sent.destroy())
    sent.end()
  })

const order = (port: number, from: string) =>
  connect({ port, host: '127.0.0.1', localAddress: from })
    .on('error', () => {})
    .resume()

type Ports = { httpsPort: number; tcpPort: number }

/** Resolves once the partner was allowed, so that a later change can shut it out. */
export async function untilServed({ httpsPort }: Ports): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    if ((await visit({ from: partner, path: '/api/v2/stock' }, httpsPort)) === 200) return
    await sleep(100)
  }
}

/**
 * Many visits at first, so that there is something to see, and then as many as a small shop has. Ends with the process.
 */
export async function sendTraffic(ports: Ports): Promise<never> {
  for (let sent = 0; ; sent++) {
    await visit(pick(), ports.httpsPort)
    if (sent % 20 === 0) order(ports.tcpPort, sent % 60 === 0 ? abuser : office)
    if (sent > 400) await sleep(150 + Math.random() * 250)
  }
}
