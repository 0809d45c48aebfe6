import { ConfigError } from '../kernel/config_error.ts'
import { setting } from './setting.ts'
import { list, text } from './values.ts'

function mailServer(value: string): { host: string; port: number; isTls: boolean } | undefined {
  if (value === '') return undefined
  const url = URL.parse(value)
  if (!url || !/^smtps?:$/.test(url.protocol) || !url.hostname || url.username || !/^\/?$/.test(url.pathname))
    throw new ConfigError('must be smtp://host:port or smtps://host:port, without a user name and password')
  const isTls = url.protocol === 'smtps:'
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port) || (isTls ? 465 : 587), isTls }
}

function sender(value: string): string {
  if (value !== '' && !/^[\w.%+-]{1,64}@[A-Za-z0-9.-]{1,189}$/.test(value))
    throw new ConfigError('must be one e-mail address, such as alerts@example.com')
  return value
}

/** The operator's mail server, and the recipients that it may send to. */
export const mailSettings = {
  GATEHOUSE_SMTP_URL: setting({
    default: '',
    help: 'Mail server that sends alerts: smtp://host:port with STARTTLS, which only a server on this machine may lack, or smtps://host:port. Empty: none.',
    parse: mailServer,
  }),
  GATEHOUSE_SMTP_USER: setting({ default: '', help: 'User name at the mail server. Empty: none.', parse: text }),
  GATEHOUSE_SMTP_PASSWORD: setting({
    default: '',
    help: 'Password at the mail server.',
    secret: true,
    parse: text,
  }),
  GATEHOUSE_SMTP_FROM: setting({ default: '', help: 'Address that alerts are sent from.', parse: sender }),
  GATEHOUSE_SMTP_RECIPIENTS: setting({
    default: '',
    help: 'Domains, comma-separated, to which accounts may have alerts sent, or * for all. Empty: none.',
    parse: (value) => list(value.toLowerCase()),
  }),
}
