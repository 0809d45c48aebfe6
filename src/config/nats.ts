import { setting } from './setting.ts'
import { natsServers, text } from './values.ts'

/** NATS settings, shared by the control plane and edge nodes. */
export const natsSettings = {
  GATEHOUSE_NATS_URL: setting({
    default: '',
    help: 'NATS servers, comma-separated, such as tls://nats-1:4222. If any of them uses tls://, TLS is required for all. Empty: no edges.',
    parse: natsServers,
  }),
  GATEHOUSE_NATS_CA_FILE: setting({
    default: '',
    help: 'PEM file of the CA that signed the certificates of NATS. Setting it makes TLS required. Empty: the CAs that Node.js trusts.',
    parse: text,
  }),
  GATEHOUSE_NATS_USER: setting({ default: '', help: 'NATS user name.', parse: text }),
  GATEHOUSE_NATS_PASSWORD: setting({ default: '', help: 'NATS password.', secret: true, parse: text }),
}
