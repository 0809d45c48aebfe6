import { Button } from '../../ui/button.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'

/** Shows the token, for the only time. It exists only in this component's props. */
export function TokenShown({ title, token, onClose }: { title: string; token: string; onClose: () => void }) {
  return (
    <Dialog title={title} onClose={onClose} mustAnswer>
      <p>Copy the token now. It is not stored and cannot be shown again.</p>
      <output className="token mono" aria-label="Token">
        {token}
      </output>
      <div className="actions">
        <CopyButton text={token} what="token" />
        <Button kind="primary" onPress={onClose}>
          I have saved it
        </Button>
      </div>
      <details>
        <summary>Try the token</summary>
        <pre className="code">{`curl -H "Authorization: Bearer $TOKEN" -H "Service-Version: 2" ${location.origin}/caller`}</pre>
      </details>
    </Dialog>
  )
}
