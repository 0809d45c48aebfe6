/** Receivers on this machine, and retries within the patience of a test. */
export const webhookEnv = {
  GATEHOUSE_WEBHOOK_ALLOW: '127.0.0.1/32',
  GATEHOUSE_WEBHOOK_RETRY_SECONDS: '0.1,0.1,0.2,0.5,0.5,0.5,1,1',
}
