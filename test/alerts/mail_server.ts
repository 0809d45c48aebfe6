import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { createSecureContext, TLSSocket } from 'node:tls'
import type { NewCertificate } from '../harness/certificates.ts'
import type { Scope } from '../harness/control_plane.ts'

type Received = { from: string; to: string; user: string | undefined; isEncrypted: boolean; data: string }

/** A small mail server that speaks SMTP. With a certificate it offers STARTTLS, and takes a user only after it. */
export async function startMailServer(scope: Scope, certificate?: NewCertificate) {
  const received: Received[] = []
  const state = { answer: '250 taken', greets: true }
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => {})
    if (state.greets) socket.write('220 mail.test\r\n')
    talk(socket, false).catch(() => {})
  })

  async function talk(socket: Socket, isEncrypted: boolean): Promise<void> {
    const mail = { from: '', to: '', user: undefined as string | undefined, isEncrypted }
    let data: string[] | undefined
    const reader = createInterface({ input: socket })
    for await (const line of reader) {
      if (data && line !== '.') data.push(line.replace(/^\./, ''))
      else if (data) {
        if (state.answer.startsWith('2')) received.push({ ...mail, data: data.join('\n') })
        data = undefined
        socket.write(`${state.answer}\r\n`)
      } else if (/^EHLO /.test(line))
        socket.write(
          certificate && !isEncrypted ? '250-mail.test\r\n250 STARTTLS\r\n' : '250-mail.test\r\n250 AUTH PLAIN\r\n',
        )
      else if (line === 'STARTTLS' && certificate) {
        reader.close()
        socket.write('220 go\r\n')
        const secureContext = createSecureContext({
          cert: certificate.certificate_pem,
          key: certificate.private_key_pem,
        })
        const secure = new TLSSocket(socket, { isServer: true, secureContext })
        secure.on('error', () => {})
        talk(secure, true).catch(() => {})
        return
      } else if (line.startsWith('AUTH PLAIN ')) {
        mail.user = Buffer.from(line.slice(11), 'base64').toString().split('\0').slice(1).join(':')
        socket.write('235 welcome\r\n')
      } else if (line.startsWith('MAIL FROM:')) {
        mail.from = line.slice(10)
        socket.write('250 ok\r\n')
      } else if (line.startsWith('RCPT TO:')) {
        mail.to = line.slice(8)
        socket.write('250 ok\r\n')
      } else if (line === 'DATA') {
        data = []
        socket.write('354 go on\r\n')
      } else if (line === 'QUIT') socket.end('221 bye\r\n')
      else socket.write('500 what\r\n')
    }
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.after(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return { received, state, port: (server.address() as AddressInfo).port }
}

/** The text of a message, and its subject. */
export function readMail(data: string): { subject: string; text: string; headers: string } {
  const [headers = '', body = ''] = data.split(/\n\n/)
  const [, encoded = ''] = /^Subject: (.*(?:\n .*)*)/m.exec(headers) ?? []
  const subject = encoded.replace(/=\?utf-8\?B\?([^?]*)\?=\s*/g, (_, word) => Buffer.from(word, 'base64').toString())
  return { subject, text: Buffer.from(body, 'base64').toString(), headers }
}
