import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import type { NewCertificate } from '../harness/certificates.ts'
import type { Scope } from '../harness/control_plane.ts'
import { pause } from '../harness/poll.ts'

export type Received = {
  id: string
  at: number
  type: string
  resource: string
  data: Record<string, unknown>
  headers: IncomingMessage['headers']
}
type Answer = { status: number; headers?: Record<string, string>; delayMs?: number }

/**
 * A receiver as a customer would write it: it verifies with the official package, and refuses what does not verify. It can
 * be killed and brought back on the same port.
 */
export async function startReceiver(
  scope: Scope,
  answer: (event: Received) => Answer | undefined | Promise<Answer | undefined> = () => undefined,
  tls?: { host: string; certificate: NewCertificate },
) {
  /** What it has accepted, in the order of its answers. */
  const received: Received[] = []
  const state = { secrets: [] as string[], refused: 0, attempts: 0 }
  let server: Server | undefined
  let port = 0

  async function listen(): Promise<void> {
    const handle: RequestListener = async (request, response) => {
      state.attempts++
      const body = await text(request).catch(() => '')
      let event: Received
      try {
        event = verified(body, request.headers)
      } catch {
        state.refused++
        response.writeHead(401).end()
        return
      }
      const { status = 204, headers = {}, delayMs = 0 } = (await answer(event)) ?? {}
      if (delayMs) await pause(delayMs)
      if (response.destroyed) return
      if (status < 300) received.push(event)
      response.writeHead(status, headers).end()
    }
    server = tls
      ? createTlsServer({ cert: tls.certificate.certificate_pem, key: tls.certificate.private_key_pem }, handle)
      : createServer(handle)
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
  }

  function verified(body: string, headers: IncomingMessage['headers']): Received {
    const errors: unknown[] = []
    for (const secret of state.secrets)
      try {
        new Webhook(secret).verify(body, headers as Record<string, string>)
        const { type, data } = JSON.parse(body)
        return { id: String(headers['webhook-id']), at: Date.now(), type, resource: data.resource_id, data, headers }
      } catch (error) {
        errors.push(error)
      }
    throw new AggregateError(errors)
  }

  async function kill(): Promise<void> {
    const dying = server
    server = undefined
    if (!dying) return
    dying.closeAllConnections()
    await new Promise((resolve) => dying.close(resolve))
  }
  await listen()
  scope.after(kill)
  const url = () => (tls ? `https://${tls.host}:${port}/hook` : `http://127.0.0.1:${port}/hook`)
  return { url, received, state, kill, revive: listen }
}
