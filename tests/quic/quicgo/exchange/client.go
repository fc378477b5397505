// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	chunkBytes    = 1 << 16
	datagramCount = 50
	// DATAGRAM frames may be lost: one that is not back is sent again after this time.
	datagramAgain = 200 * time.Millisecond
)

// told has what the server's unidirectional streams began with, and what came behind it.
type told struct {
	mutex   sync.Mutex
	lines   map[string]*bufio.Reader
	changed chan struct{}
}

func listen(ctx context.Context, conn *quic.Conn) *told {
	all := &told{lines: map[string]*bufio.Reader{}, changed: make(chan struct{})}
	go func() {
		for {
			stream, err := conn.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			go func() {
				lines := bufio.NewReader(stream)
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				all.mutex.Lock()
				defer all.mutex.Unlock()
				all.lines[strings.TrimSpace(line)] = lines
				close(all.changed)
				all.changed = make(chan struct{})
			}()
		}
	}()
	return all
}

// wait gives what comes behind a line, when that has come.
func (all *told) wait(ctx context.Context, format string, values ...any) (*bufio.Reader, error) {
	line := fmt.Sprintf(format, values...)
	for {
		all.mutex.Lock()
		rest, changed := all.lines[line], all.changed
		all.mutex.Unlock()
		if rest != nil {
			return rest, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the server never told '%s'", line)
		case <-changed:
		}
	}
}

func exchange(ctx context.Context, conn *quic.Conn, size int, moves bool) (map[string]any, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseWithError(1, "took too long") })
	defer stop()
	all := listen(ctx, conn)
	cases := map[string]func() (int, error){
		"fetched":   func() (int, error) { return fetch(ctx, conn, "fetched", 1_000_000) },
		"one_way":   func() (int, error) { return oneWay(ctx, conn, all, 300_000) },
		"datagrams": func() (int, error) { return datagrams(ctx, conn) },
		"server_cancels_reading": func() (int, error) {
			stream, err := conn.OpenStreamSync(ctx)
			return serverCancelsReading(stream, 71, err)
		},
		"server_cancels_reading_one_way": func() (int, error) {
			stream, err := conn.OpenUniStreamSync(ctx)
			return serverCancelsReading(stream, 72, err)
		},
		"server_cancels_writing": func() (int, error) { return serverCancelsWriting(ctx, conn, 73) },
		"client_cancels_reading": func() (int, error) { return clientCancelsReading(ctx, conn, all, 74) },
		"client_cancels_writing": func() (int, error) {
			stream, err := conn.OpenStreamSync(ctx)
			return clientCancelsWriting(ctx, stream, all, 75, err)
		},
		"client_cancels_writing_one_way": func() (int, error) {
			stream, err := conn.OpenUniStreamSync(ctx)
			return clientCancelsWriting(ctx, stream, all, 76, err)
		},
	}
	if moves {
		cases["moves"] = func() (int, error) { return 1, move(ctx, conn) }
	}
	type result struct {
		name  string
		value int
		err   error
	}
	results := make(chan result)
	for name, run := range cases {
		go func() {
			value, err := run()
			results <- result{name, value, err}
		}()
	}
	others := make(chan struct{})
	bulkResult := make(chan result, 1)
	go func() {
		value, err := bulk(ctx, conn, size, others)
		bulkResult <- result{"bulk", value, err}
	}()
	seen := map[string]any{}
	var errs []error
	take := func(one result) {
		seen[one.name] = one.value
		if one.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", one.name, one.err))
		}
	}
	for range cases {
		take(<-results)
	}
	close(others)
	take(<-bulkResult)
	return seen, errors.Join(errs...)
}

// bulk goes both ways on one stream, so much and until the others are through.
func bulk(ctx context.Context, conn *quic.Conn, size int, others <-chan struct{}) (int, error) {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return 0, err
	}
	back := make(chan []byte)
	var readErr error
	go func() {
		var came []byte
		came, readErr = io.ReadAll(stream)
		back <- came
	}()
	if _, err := fmt.Fprintln(stream, "echo"); err != nil {
		return 0, err
	}
	var sent []byte
	for through := false; len(sent) < size || !through; {
		chunk := content(fmt.Sprintf("bulk %d", len(sent)), chunkBytes)
		sent = append(sent, chunk...)
		if _, err := stream.Write(chunk); err != nil {
			return 0, err
		}
		select {
		case <-others:
			through = true
		default:
		}
	}
	stream.Close()
	return len(sent), compare(<-back, readErr, sent)
}

func compare(came []byte, err error, wanted []byte) error {
	if err != nil {
		return err
	}
	if !bytes.Equal(came, wanted) {
		return fmt.Errorf("%d bytes came, and not the %d that were wanted", len(came), len(wanted))
	}
	return nil
}

func fetch(ctx context.Context, conn *quic.Conn, label string, size int) (int, error) {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(stream, "send %s %d\n", label, size)
	stream.Close()
	came, err := io.ReadAll(stream)
	return size, compare(came, err, content(label, size))
}

func oneWay(ctx context.Context, conn *quic.Conn, all *told, size int) (int, error) {
	stream, err := conn.OpenUniStreamSync(ctx)
	if err != nil {
		return 0, err
	}
	data := content("one way", size)
	if _, err := stream.Write(append([]byte("echo\n"), data...)); err != nil {
		return 0, err
	}
	stream.Close()
	back, err := all.wait(ctx, "echo %d", stream.StreamID())
	if err != nil {
		return 0, err
	}
	came, err := io.ReadAll(back)
	return size, compare(came, err, data)
}

func datagrams(ctx context.Context, conn *quic.Conn) (int, error) {
	wanted := map[string][]byte{}
	for i := range datagramCount {
		data := content(fmt.Sprintf("datagram %d", i), 8+20*i)
		wanted["back"+string(data)] = data
	}
	seen := map[string]bool{}
	for len(seen) < len(wanted) {
		for back, data := range wanted {
			if seen[back] {
				continue
			}
			if err := conn.SendDatagram(data); err != nil {
				return 0, err
			}
		}
		soon, cancel := context.WithTimeout(ctx, datagramAgain)
		for len(seen) < len(wanted) {
			came, err := conn.ReceiveDatagram(soon)
			if err != nil {
				break
			}
			if wanted[string(came)] == nil {
				cancel()
				return 0, errors.New("a datagram came that nobody sent")
			}
			seen[string(came)] = true
		}
		cancel()
		if err := context.Cause(conn.Context()); err != nil {
			return len(seen), err
		}
	}
	return len(seen), nil
}

// codeOf gives the code with which the other side cancelled.
func codeOf(err error) (int, error) {
	var cancelled *quic.StreamError
	if errors.As(err, &cancelled) && cancelled.Remote {
		return int(cancelled.ErrorCode), nil
	}
	return 0, fmt.Errorf("the other side did not cancel: %w", err)
}

func serverCancelsReading(stream writable, code int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fprintf(stream, "stop %d\n", code)
	for err == nil {
		_, err = stream.Write(content("stop", chunkBytes))
	}
	return codeOf(err)
}

func serverCancelsWriting(ctx context.Context, conn *quic.Conn, code int) (int, error) {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(stream, "reset %d\n", code)
	_, err = io.ReadAll(stream)
	return codeOf(err)
}

func clientCancelsReading(ctx context.Context, conn *quic.Conn, all *told, code int) (int, error) {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Fprintln(stream, "send cancelled 4000000")
	if _, err := stream.Read(make([]byte, 1)); err != nil {
		return 0, err
	}
	stream.CancelRead(quic.StreamErrorCode(code))
	_, err = all.wait(ctx, "stop %d %d", stream.StreamID(), code)
	return code, err
}

type cancellable interface {
	writable
	StreamID() quic.StreamID
}

func clientCancelsWriting(ctx context.Context, stream cancellable, all *told, code int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if _, err := stream.Write(append([]byte("drop\n"), content("drop", 100_000)...)); err != nil {
		return 0, err
	}
	stream.CancelWrite(quic.StreamErrorCode(code))
	_, err = all.wait(ctx, "reset %d %d", stream.StreamID(), code)
	return code, err
}
