import type { ReactNode } from 'react'
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from 'react-aria-components'
import { Button } from './button.tsx'

type Props = {
  title: string
  onClose: () => void
  children: ReactNode
  /** For dialogs that a click outside must not close, such as a token that is shown once. */
  mustAnswer?: boolean
  wide?: boolean
  /** Uses the window's height and scrolls inside, so that loading content moves no button. */
  tall?: boolean
}

/** Open while it is rendered; the parent's state decides. */
export function Dialog({ title, onClose, children, mustAnswer, wide, tall }: Props) {
  return (
    <ModalOverlay
      className="overlay"
      isOpen
      isDismissable={!mustAnswer}
      isKeyboardDismissDisabled={mustAnswer}
      onOpenChange={(isOpen) => !isOpen && onClose()}
    >
      <Modal className={`modal${wide ? ' wide' : ''}${tall ? ' tall' : ''}`}>
        <AriaDialog className="dialog" role={mustAnswer ? 'alertdialog' : 'dialog'}>
          <header>
            <Heading slot="title">{title}</Heading>
            {!mustAnswer && (
              <Button kind="quiet" icon="close" iconOnly onPress={onClose}>
                Close
              </Button>
            )}
          </header>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}
