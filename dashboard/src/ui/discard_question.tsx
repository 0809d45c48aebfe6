import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'

export function DiscardQuestion({ onAnswer }: { onAnswer: (discards: boolean) => void }) {
  return (
    <Dialog title="Discard unsaved changes?" onClose={() => onAnswer(false)}>
      <p>Your changes have not been saved.</p>
      <div className="actions">
        <Button autoFocus onPress={() => onAnswer(false)}>
          Keep editing
        </Button>
        <Button kind="danger" onPress={() => onAnswer(true)}>
          Discard changes
        </Button>
      </div>
    </Dialog>
  )
}
