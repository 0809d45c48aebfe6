import { once } from 'node:events'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { connect as connectTls } from 'node:tls'
import type { Outcome } from './sender.ts'

/** The operator's mail server. `isTls`: TLS from the first byte; otherwise STARTTLS. */
export type MailServer = { host: string; port: number; isTls: boolean; user: string; password: string; from: string }
export type Mail = { id: string; to: string; subject: string; text: string; at: number }
export type SendMail = (mail: Mail, signal: AbortSignal) => Promise<Outcome>

const timeoutMs = 30_000
/** A reply with more lines is not from a mail server. */
const maxReplyLines = 100

/** A reply, possibly with several lines. */
type Reply = { code: number; lines: string[] }
class Refused extends Error {
  override readonly name = 'Refused'
}

export type MailPolicy = { readonly recipients: readonly string[]; readonly hasServer: boolean }

/** Completes the sentence 'url …'. */
export function mailUrlFault(url: string, { recipients, hasServer }: MailPolicy): string | undefined {
  if (!hasServer) return 'must not begin with mailto: because the operator has no mail server'
  const address = url.slice('mailto:'.length)
  if (!isMailAddress(address)) return 'must be mailto: and one e-mail address'
  const domain = address.slice(address.lastIndexOf('@') + 1).toLowerCase()
  const isAllowed = recipients.some((each) => each === '*' || each === domain)
  return isAllowed ? undefined : 'must have an address in a domain to which the operator lets accounts send'
}

/** Addresses are sent unescaped, so this excludes characters that would end a line or a bracket. */
export const isMailAddress = (text: string): boolean =>
  text.length <= 254 &&
  /^[A-Za-z0-9._%+'-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}$/.test(text)

/** Subject and text are base64, so they cannot end the message, add a header or exceed a line. */
export function messageText({ id, to, subject, text, at }: Mail, from: string): string {
  // An encoded word has at most 75 characters and never splits a character of the text.
  const words: string[] = []
  for (const character of subject.slice(0, 200)) {
    const longer = (words.at(-1) ?? '') + character
    if (words.length > 0 && Buffer.byteLength(longer) <= 42) words[words.length - 1] = longer
    else words.push(character)
  }
  const encoded = words.map((word) => `=?utf-8?B?${Buffer.from(word).toString('base64')}?=`)
  const body = Buffer.from(text).toString('base64').replace(/.{76}/g, '$&\r\n')
  return [
    `From: <${from}>`,
    `To: <${to}>`,
    `Subject: ${encoded.join('\r\n ')}`,
    `Date: ${new Date(at).toUTCString().replace('GMT', '+0000')}`,
    `Message-ID: <${id}@${from.slice(from.lastIndexOf('@') + 1)}>`,
    'Auto-Submitted: auto-generated',
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: base64',
    '',
    body,
  ].join('\r\n')
}

/** One connection per message, because alerts are rare. */
export const createMailer =
  (server: MailServer): SendMail =>
  async (mail, signal) => {
    const timeout = AbortSignal.timeout(timeoutMs)
    const ended = AbortSignal.any([signal, timeout])
    let socket: Socket | undefined
    const abort = () => socket?.destroy(new Error('aborted'))
    ended.addEventListener('abort', abort)
    try {
      await deliver(server, mail, (current) => {
        socket = current
        if (ended.aborted) abort()
      })
      return { status: null, error: null, retryAfterMs: 0 }
    } catch (error) {
      const reason = timeout.aborted ? `no answer within ${timeoutMs / 1_000} s` : reasonOf(error)
      return { status: null, error: reason.slice(0, 300), retryAfterMs: 0 }
    } finally {
      ended.removeEventListener('abort', abort)
      socket?.destroy()
    }
  }

/** Shows a tenant the server's reply, but not its address. */
function reasonOf(error: unknown): string {
  if (error instanceof Refused) return error.message
  const { code } = error as NodeJS.ErrnoException
  return `the mail server cannot be used: ${code ?? 'the connection was closed'}`
}

async function deliver(server: MailServer, mail: Mail, onSocket: (socket: Socket) => void): Promise<void> {
  const { host, port, user, password, from } = server
  const servername = isIP(host) ? '' : host
  const plain = server.isTls ? connectTls({ host, port, servername }) : connectTcp({ host, port })
  onSocket(plain)
  let talk = conversation(plain)
  await talk.reply(220)
  let { lines } = await talk.say('EHLO gatehouse', 250)
  let isEncrypted = server.isTls
  if (!isEncrypted && lines.some((line) => /^STARTTLS$/i.test(line))) {
    await talk.say('STARTTLS', 220)
    talk.end()
    const secure = connectTls({ socket: plain, host, servername })
    onSocket(secure)
    await once(secure, 'secureConnect')
    talk = conversation(secure)
    lines = (await talk.say('EHLO gatehouse', 250)).lines
    isEncrypted = true
  }
  if (!isEncrypted && !isLocal(host)) throw new Refused('the mail server offers no encryption')
  if (user !== '') await talk.say(`AUTH PLAIN ${Buffer.from(`\0${user}\0${password}`).toString('base64')}`, 235)
  await talk.say(`MAIL FROM:<${from}>`, 250)
  await talk.say(`RCPT TO:<${mail.to}>`, 250, 251)
  await talk.say('DATA', 354)
  await talk.say(`${messageText(mail, from)}\r\n.`, 250)
  // The server has already accepted the message.
  talk.say('QUIT').catch(() => {})
}

const isLocal = (host: string): boolean => ['127.0.0.1', '::1', 'localhost'].includes(host)

function conversation(socket: Socket) {
  const reader = createInterface({ input: socket })
  const lines = reader[Symbol.asyncIterator]()
  const failed = once(socket, 'error').then(([error]) => {
    throw error
  })
  failed.catch(() => {})
  socket.on('error', () => {})

  async function reply(...expected: number[]): Promise<Reply> {
    const found: string[] = []
    while (found.length < maxReplyLines) {
      const { value, done } = await Promise.race([lines.next(), failed])
      if (done) throw new Error('closed')
      const [, code = '', more = '', text = ''] = /^(\d{3})([ -]?)(.*)$/.exec(value) ?? []
      found.push(text)
      if (more === '-') continue
      if (expected.length > 0 && !expected.includes(Number(code)))
        throw new Refused(`the mail server answered ${code} ${text}`.trim())
      return { code: Number(code), lines: found }
    }
    throw new Refused('the mail server talks too much')
  }
  return {
    reply,
    say(command: string, ...expected: number[]): Promise<Reply> {
      socket.write(`${command}\r\n`)
      return reply(...expected)
    },
    /** Closes the reader before TLS starts: data received earlier must not be trusted afterwards. */
    end: () => reader.close(),
  }
}
