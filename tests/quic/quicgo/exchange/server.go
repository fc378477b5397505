// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/quic-go/quic-go"
)

// answering is a connection of the server.
type answering struct {
	*quic.Conn
	ctx context.Context
}

func serve(ctx context.Context, conn *quic.Conn) {
	server := answering{conn, ctx}
	go func() {
		for {
			stream, err := conn.AcceptStream(ctx)
			if err != nil {
				return
			}
			go server.answer(stream.StreamID(), stream, stream)
		}
	}()
	go func() {
		for {
			stream, err := conn.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			go server.answer(stream.StreamID(), stream, nil)
		}
	}()
	go func() {
		for {
			datagram, err := conn.ReceiveDatagram(ctx)
			if err != nil || conn.SendDatagram(append([]byte("back"), datagram...)) != nil {
				return
			}
		}
	}()
}

type readable interface {
	io.Reader
	CancelRead(quic.StreamErrorCode)
}

type writable interface {
	io.WriteCloser
	CancelWrite(quic.StreamErrorCode)
}

// answer does what the first line of a stream asks for. There is nothing to write to where it is unidirectional.
func (server answering) answer(id quic.StreamID, in readable, out writable) {
	if out != nil {
		defer out.Close()
	}
	lines := bufio.NewReader(in)
	err := server.obey(id, lines, in, out)
	// A client that cancels its writing may do so before the line is here, and after it has been obeyed.
	if err == nil {
		_, err = io.Copy(io.Discard, lines)
	}
	var cancelled *quic.StreamError
	if errors.As(err, &cancelled) && cancelled.Remote {
		server.tell(fmt.Sprintf("reset %d %d", id, cancelled.ErrorCode))
	}
}

// obey gives the error of reading, if any.
func (server answering) obey(id quic.StreamID, lines *bufio.Reader, in readable, out writable) error {
	line, err := lines.ReadString('\n')
	if err != nil {
		return err
	}
	command, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	label, last, labelled := strings.Cut(rest, " ")
	if !labelled {
		last = label
	}
	number, err := strconv.Atoi(last)
	if err != nil && last != "" {
		return err
	}
	switch command {
	case "echo":
		if out == nil {
			stream, err := server.OpenUniStreamSync(server.ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(stream, "echo %d\n", id)
			out = stream
		}
		_, err = io.Copy(out, lines)
		out.Close()
		return err
	case "send":
		_, err := out.Write(content(label, number))
		var cancelled *quic.StreamError
		if errors.As(err, &cancelled) && cancelled.Remote {
			server.tell(fmt.Sprintf("stop %d %d", id, cancelled.ErrorCode))
		}
	case "stop":
		in.CancelRead(quic.StreamErrorCode(number))
	case "reset":
		_, _ = out.Write(content("reset", 5000))
		out.CancelWrite(quic.StreamErrorCode(number))
	}
	return nil
}

func (server answering) tell(line string) {
	stream, err := server.OpenUniStreamSync(server.ctx)
	if err != nil {
		return // the client has gone
	}
	fmt.Fprintln(stream, line)
	stream.Close()
}
