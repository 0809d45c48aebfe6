// What users of the package import. The dashboard and the command line import the modules themselves.
export type { Applied } from './applied.ts'
export {
  createClient,
  type GatehouseClient,
  type ListPath,
  NotAppliedError,
  type RowOf,
  type Shapes,
  type WaitOptions,
} from './client.ts'
export { ConnectionError, type ErrorCode, type FieldError, GatehouseError, SentForApprovalError } from './errors.ts'
export type { SendOptions } from './send.ts'
export { verifyWebhook, WebhookError, type WebhookEvent } from './webhooks.ts'
